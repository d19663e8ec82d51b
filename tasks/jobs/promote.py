"""Registers the best calibrated model of a data set as challenger, and makes it the champion if it passes the gate.

The gate is a statistical comparison of challenger and champion: see kgcore/monitoring/gate.py.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd
from filelock import FileLock

from kgcore.calibrated import CalibratedModel
from kgcore.config import GateConfig
from kgcore.errors import InputError
from kgcore.evaluation.predictions import Predictions
from kgcore.graph import KnowledgeGraph
from kgcore.monitoring.gate import Verdict, gate
from tasks.jobs.card import model_card
from tasks.jobs.compare import TEST_SAMPLE, comparison, dataset_name
from tasks.jobs.measured import measured_models, predictions_of
from tasks.tracking.artifacts import GRAPH
from tasks.tracking.mlmodel import complete_model
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.registry import CHALLENGER, CHAMPION, aliased, describe, load_calibrated, register, set_alias
from tasks.tracking.store import Store, open_store

FEWEST_TRIPLES = 50  # the least number of test triples, new to the champion, that the gate compares on


def datasets_with_results() -> list[str]:
    """Return the names of the data sets with a finished evaluation, sorted. Raises InputError if there are none."""
    return sorted(set(comparison()["dataset"]))


@dataclass(frozen=True)
class Decision:
    """The decision whether a challenger becomes the champion.

    dataset      name of the data set
    challenger   URI of the challenger
    champion     URI of the champion after the decision; None: the data set has no champion
    passed       whether the challenger became the champion
    explanation  one sentence with the reason
    run          id of the MLflow run with the metrics of the comparison; None: the challenger was already the champion
    """

    dataset: str
    challenger: str
    champion: str | None
    passed: bool
    explanation: str
    run: str | None


def promote_best(dataset: str, base_rate: float | None, config: GateConfig) -> Decision:
    """Register what has the best Brier score, a calibrator or an ensemble, as challenger. Compare it with the champion.

    dataset    name of the data set, or the folder of the user's files
    base_rate  consider only models for this base rate, in (0, 1); None: all

    Only what was measured on the newest test sample can become challenger. The champion predicts the
    triples of the same sample. If the data set has no champion, the challenger is compared with a constant probability,
    the base rate. If the challenger passes, it gets the alias `champion`. The challenger's LoggedModel gets the
    embedding models and the graph, so that it can be served alone, and its version gets a model card as description.

    Raises InputError if no calibrator was measured, if fewer than FEWEST_TRIPLES test triples are new to the champion,
    or if the champion was trained on a different graph or is for another base rate.
    """
    store, dataset = open_store(), dataset_name(dataset)
    with FileLock(store.home / "locks" / f"promote-{dataset}.lock"):
        return _promote(store, dataset, base_rate, config)


def _promote(store: Store, dataset: str, base_rate: float | None, config: GateConfig) -> Decision:
    candidates = _candidates(dataset, base_rate)
    best = candidates.iloc[0]
    label = f"{best['negatives']}.{best['calibrator']}"
    model_id = _calibrator_id(store, best["evaluate"], label)
    words = f"{_described(best)}, {label.replace('_', ' ')}, Brier score {best['brier']:.4f} ({best['test']})"
    version = register(store, dataset, model_id, words)
    complete_model(store, version.model_id)
    describe(store, dataset, version, model_card(store, version, best["evaluate"]).markdown())
    set_alias(store, dataset, CHALLENGER, version)
    champion = aliased(store, dataset, CHAMPION)
    if champion is not None and champion.number == version.number:
        why = f"{dataset}: version {version.number} ({words}), the best of {len(candidates)}, is already the champion"
        return Decision(dataset, version.uri, champion.uri, False, why, None)
    if champion is not None:
        complete_model(store, champion.model_id)  # versions of earlier versions of kgcal are not complete

    verdict = _judge(store, best["evaluate"], label, champion.model_id if champion else None, config, len(candidates))
    against = f"the champion, version {champion.number}" if champion else "the base rate, as there is no champion yet"
    why = (
        f"{dataset}: version {version.number} ({words}), the best of {len(candidates)}, against {against}: "
        f"{verdict.reason()}. {'It is the new champion.' if verdict.passed else 'It is not promoted.'}"
    )
    decision = Decision(dataset, version.uri, champion.uri if champion else None, verdict.passed, why, None)
    with store.open_run(f"promote {dataset}", RunTags(stage="promote")) as run_id:
        named = {"dataset": dataset, "challenger": version.uri, "champion": decision.champion}
        store.log_params(run_id, named | asdict(config) | {"candidates": len(candidates)})
        sample = DatasetId(dataset, str(best["digest"]))
        store.log_metrics(run_id, _metrics(verdict), model_id=model_id, dataset=sample)
        store.log_tags(run_id, RunTags(note=why))
        if verdict.passed:
            set_alias(store, dataset, CHAMPION, version)
            decision = replace(decision, champion=version.uri)
    return replace(decision, run=run_id)


def _metrics(verdict: Verdict) -> dict[str, float]:
    """Return the differences that the gate tested, the ends of their intervals, and `passed` (1 or 0), as metrics."""
    figures = {"brier_gain": verdict.brier} | ({"ece_increase": verdict.ece} if verdict.ece else {})
    metrics = {name: estimate.value for name, estimate in figures.items()}
    metrics |= {f"{name}_low": estimate.low for name, estimate in figures.items()}
    metrics |= {f"{name}_high": estimate.high for name, estimate in figures.items()}
    return metrics | {"passed": float(verdict.passed)}


def _candidates(dataset: str, base_rate: float | None) -> pd.DataFrame:
    """Return the calibrators and ensembles that were measured on the newest test sample, best Brier score first."""
    frame = comparison("brier", dataset, base_rate=base_rate)
    frame = frame[(frame["negatives"] != "none") & frame["brier"].notna()]
    if frame.empty:
        raise InputError(f"no calibrator of {dataset} has a Brier score: run `kgcal run --dataset {dataset}` first")
    newest = frame.sort_values("when").iloc[-1][TEST_SAMPLE]
    return frame[(frame[TEST_SAMPLE] == newest).all(axis=1)]


def _calibrator_id(store: Store, evaluate: str, label: str) -> str:
    """Return the id of the LoggedModel with this label that an evaluate run or an ensemble's run measured."""
    model_ids = measured_models(store, evaluate)
    return next(model_id for model_id in model_ids if store.model(model_id).label == label)


def _described(best: "pd.Series[Any]") -> str:
    """Return the model and the loss of a row of the comparison, or the members of an ensemble."""
    members = best.get("ensemble.members")
    return f"{best['model']} of {members}" if isinstance(members, str) else f"{best['model']} {best['loss']}"


def _judge(
    store: Store, evaluate: str, label: str, champion: str | None, config: GateConfig, candidates: int
) -> Verdict:
    inputs, predictions = store.get(evaluate).tags.inputs, predictions_of(store, evaluate)
    if champion is None:
        return gate(predictions.probabilities[label], None, predictions.labels, predictions.weights, config, candidates)
    graph = store.load(inputs["prepare"], GRAPH)
    other = load_calibrated(store, champion)
    _check_comparable(graph, other, predictions)
    names = graph.names_of(predictions.triples)
    _, of_champion, known = other.predict(names)
    rows = known & ~other.fitted_on(names)  # a model must not be measured on triples that it was fitted on
    if rows.sum() < FEWEST_TRIPLES:
        raise InputError(
            f"{int(rows.sum()):,} test triples are new to the champion: at least {FEWEST_TRIPLES} are needed"
        )
    challenger, labels, weights = predictions.probabilities[label], predictions.labels, predictions.weights
    return gate(challenger[rows], of_champion[rows], labels[rows], weights[rows], config, candidates)


def _check_comparable(graph: KnowledgeGraph, champion: CalibratedModel, predictions: Predictions) -> None:
    """Raise InputError if the champion cannot be compared on these predictions.

    The comparison is impossible if the champion was trained on a different graph with the same name. It is also
    impossible if the test negatives are corruptions and their weights give another base rate than the champion's.
    """
    theirs = champion.graph.names_of(champion.graph.train.triples)
    triples, known = graph.number(theirs)
    shared = graph.index(graph.train.triples).contains(triples[known]).sum() / len(theirs)
    if shared < 0.5:
        raise InputError(
            f"the champion of {graph.name} was trained on a different graph with the same name: only {shared:.0%} of "
            "its training triples are in this graph, and at least 50% are needed. Rename the data set, or remove the "
            "alias `champion`"
        )
    stated = champion.calibrator.base_rate
    if predictions.synthetic_negatives and abs(stated - predictions.base_rate) > 1e-6:
        raise InputError(
            f"the champion of {graph.name} is for a base rate of {stated:g}, but the newest test sample is weighted to "
            f"{predictions.base_rate:g}: choose the base rate of the comparison with --base-rate"
        )
