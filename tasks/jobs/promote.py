"""The best calibrated model of a data set as challenger, and the gate through which it becomes the champion."""

from dataclasses import asdict, dataclass, replace

import pandas as pd
from filelock import FileLock

from kgcore.calibrated import CalibratedModel
from kgcore.config import GateConfig
from kgcore.errors import InputError
from kgcore.evaluation.predictions import Predictions
from kgcore.graph import KnowledgeGraph
from kgcore.monitoring.gate import Verdict, gate
from tasks.jobs.compare import ENSEMBLE, TEST_SAMPLE, comparison, dataset_name
from tasks.tracking.artifacts import GRAPH, PREDICTIONS
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.registry import CHALLENGER, CHAMPION, aliased, load_calibrated, register, set_alias
from tasks.tracking.store import Store, open_store

FEWEST_TRIPLES = 50  # triples that a gate needs


def datasets_with_results() -> list[str]:
    """The data sets that have a finished evaluation. Raises InputError where none has."""
    return sorted(set(comparison()["dataset"]))


@dataclass(frozen=True)
class Decision:
    """What the gate decided about a challenger.

    challenger, champion  model URIs; `champion` after the decision, None where the data set has none
    passed                whether the challenger became the champion
    explanation           why, in a sentence
    run                   MLflow run with the figures; None where the challenger was the champion before
    """

    dataset: str
    challenger: str
    champion: str | None
    passed: bool
    explanation: str
    run: str | None


def promote_best(dataset: str, base_rate: float | None, config: GateConfig) -> Decision:
    """Register the calibrator with the best Brier score as challenger, and decide at the gate.

    Candidates are the calibrators that were measured on the newest test sample. The champion, whatever it was measured
    on before, judges the same triples; where the data set has no champion, the base rate of the triples takes its
    place. The alias `champion` moves to a challenger that passes.

    Raises InputError where nothing was measured.
    """
    store, dataset = open_store(), dataset_name(dataset)
    with FileLock(store.home / "locks" / f"promote-{dataset}.lock"):
        return _promote(store, dataset, base_rate, config)


def _promote(store: Store, dataset: str, base_rate: float | None, config: GateConfig) -> Decision:
    candidates = _candidates(dataset, base_rate)
    best = candidates.iloc[0]
    label = f"{best['negatives']}.{best['calibrator']}"
    model_id = _calibrator_id(store, best["evaluate"], label)
    words = (
        f"{best['model']} {best['loss']}, {label.replace('_', ' ')}, Brier score {best['brier']:.4f} ({best['test']})"
    )
    version = register(store, dataset, model_id, words)
    set_alias(store, dataset, CHALLENGER, version)
    champion = aliased(store, dataset, CHAMPION)
    if champion is not None and champion.number == version.number:
        why = f"{dataset}: version {version.number} ({words}) is the champion already, the best of {len(candidates)}"
        return Decision(dataset, version.uri, champion.uri, False, why, None)

    verdict = _judge(store, best["evaluate"], label, champion.model_id if champion else None, config, len(candidates))
    against = f"the champion, version {champion.number}" if champion else "the base rate, as there is no champion yet"
    why = (
        f"{dataset}: version {version.number} ({words}), the best of {len(candidates)}, against {against}: "
        f"{verdict.reason()}. {'It is the champion now.' if verdict.passed else 'It does not become the champion.'}"
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
    """The gate's figures with their intervals, as MLflow gets them."""
    figures = {"brier_gain": verdict.brier} | ({"ece_increase": verdict.ece} if verdict.ece else {})
    metrics = {name: estimate.value for name, estimate in figures.items()}
    metrics |= {f"{name}_low": estimate.low for name, estimate in figures.items()}
    metrics |= {f"{name}_high": estimate.high for name, estimate in figures.items()}
    return metrics | {"passed": float(verdict.passed)}


def _candidates(dataset: str, base_rate: float | None) -> pd.DataFrame:
    """The calibrators measured on the newest test sample of the data set, best Brier score first; those of one model
    each, as a version of the registered model has one."""
    frame = comparison("brier", dataset, base_rate=base_rate)
    frame = frame[(frame["negatives"] != "none") & (frame["model"] != ENSEMBLE) & frame["brier"].notna()]
    if frame.empty:
        raise InputError(f"no calibrator of {dataset} has a Brier score: `kgcal run --dataset {dataset}` first")
    newest = frame.sort_values("when").iloc[-1][TEST_SAMPLE]
    return frame[(frame[TEST_SAMPLE] == newest).all(axis=1)]


def _calibrator_id(store: Store, evaluate: str, label: str) -> str:
    """The LoggedModel of the calibrator of that label that an evaluate run measured."""
    made = store.get(store.get(evaluate).tags.inputs["calibrate"]).model_ids
    return next(model_id for model_id in made if store.model(model_id).label == label)


def _judge(
    store: Store, evaluate: str, label: str, champion: str | None, config: GateConfig, candidates: int
) -> Verdict:
    inputs = store.get(evaluate).tags.inputs
    judged = store.load(inputs["classify"], PREDICTIONS)
    if champion is None:
        return gate(judged.probabilities[label], None, judged.labels, judged.weights, config, candidates)
    graph = store.load(inputs["prepare"], GRAPH)
    other = load_calibrated(store, champion)
    _check_comparable(graph, other, judged)
    names = graph.names_of(judged.triples)
    _, probabilities, known = other.predict(names)
    rows = known & ~other.fitted_on(names)  # nobody is judged on what he was fitted on
    if rows.sum() < FEWEST_TRIPLES:
        raise InputError(
            f"{int(rows.sum()):,} test triples are new to the champion: at least {FEWEST_TRIPLES} are needed"
        )
    both = (judged.probabilities[label][rows], probabilities[rows], judged.labels[rows], judged.weights[rows])
    return gate(*both, config, candidates)


def _check_comparable(graph: KnowledgeGraph, champion: CalibratedModel, judged: Predictions) -> None:
    """Raise InputError where the champion is of another graph of the same name, or is for another base rate than the
    one that the test sample, where it is of corruptions, is weighted to."""
    theirs = champion.graph.names_of(champion.graph.train.triples)
    triples, known = graph.number(theirs)
    shared = graph.index(graph.train.triples).contains(triples[known]).sum() / len(theirs)
    if shared < 0.5:
        raise InputError(
            f"the champion of {graph.name} was trained on another graph of that name, of whose training triples this "
            f"one has {shared:.0%}: give the data a name of its own, or take the champion's alias away"
        )
    stated = champion.calibrator.base_rate
    if judged.synthetic_negatives and abs(stated - judged.base_rate) > 1e-6:
        raise InputError(
            f"the champion of {graph.name} is for a base rate of {stated:g}, the newest test sample is weighted to "
            f"{judged.base_rate:g}: name the one to compare at with --base-rate"
        )
