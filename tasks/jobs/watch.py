"""Watches the champion of a data set on newly labelled triples.

All checks of the champions of a data set are steps of one MLflow run.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from filelock import FileLock

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.config import WatchConfig
from kgcore.data.datasets.base import md5_of
from kgcore.data.datasets.labels import for_exam, read_labels
from kgcore.data.datasets.prepare import describe_unknown_names, examples_of_unknown_names
from kgcore.data.graph import SPLITS
from kgcore.errors import InputError
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.report.result import Result
from kgcore.measure.report.results import headline
from kgcore.storage.folders import read_json
from kgcore.wings.monitoring.drift import Check, DriftReference, check, find_evidence
from kgcore.wings.monitoring.two_samples import NewTriples
from tasks.jobs.compare import dataset_name
from tasks.jobs.exam import add_field_labels
from tasks.jobs.find_model import calibration_sample
from tasks.tracking.artifacts import ENSEMBLE_PREDICTIONS, PREDICTIONS, Artifact
from tasks.tracking.keys import digest
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, Sources, Version, aliased, load_calibrated, sources_of
from tasks.tracking.store import Store, open_store

log = logging.getLogger("kgcal")
FEWEST_OF_A_LABEL = 25
METHOD = 3  # changes whenever the tests of a check change, so that an older check is not shown again


@dataclass(frozen=True)
class WatchResult:
    """The result of a check of a champion.

    dataset       name of the data set
    model         URI of the champion
    metrics       name -> value, as `Check.metrics` returns them
    findings      one sentence about each problem; empty: there is no problem
    notes         sentences that limit what the check can say
    answer        what to do: shift, refit or label; '': nothing (see `Report`)
    command       the command that does it; '': none
    number        number of the check, from 1
    run           id of the MLflow run that has all checks
    recalibrated  run id of the pipeline that recalibrated the model after the check; '': none
    """

    dataset: str
    model: str
    metrics: Mapping[str, float]
    findings: Sequence[str]
    notes: Sequence[str]
    answer: str
    command: str
    number: int
    run: str
    recalibrated: str = ""

    @classmethod
    def of(
        cls,
        dataset: str,
        model: str,
        measured: Check,
        metrics: Mapping[str, float],
        commands: Mapping[str, str],
        number: int,
        run: str,
        dropped: str = "",
    ) -> Self:
        """Return the result of what a check has measured.

        commands  the command for each answer
        dropped   a sentence about the labelled triples that are not new; '': all are
        """
        report = measured.report
        notes = [*([dropped] if dropped else []), *report.notes]
        said = list(report.findings), notes, report.answer, commands.get(report.answer, "")
        return cls(dataset, model, metrics, *said, number, run)

    def result(self) -> Result:
        """Return the metrics and the findings."""
        figures, lines = self.metrics, list[str]()
        for name in (name for name in headline() if name in figures):
            low, high = figures.get(f"{name}_low"), figures.get(f"{name}_high")
            ends = "" if low is None or high is None else f"  [{low:.4f}, {high:.4f}]"
            lines.append(f"{name.replace('_', ' '):<10} {figures[name]:.4f}{ends}")
        for title, name, p in (("base rate", "shift", "shift_p"), ("map", "misfit", "map_p")):
            ends = f"[{figures[f'{name}_low']:.2f}, {figures[f'{name}_high']:.2f}]"
            lines.append(f"{title:<10} moved by {figures[name]:.2f} {ends} in log-odds, p = {figures[p]:.2g}")
        lines.append(f"{'scores':<10} stability index {figures['psi']:.3f}, p = {figures['psi_p']:.2g}")
        said = [f"* {line}" for line in (*(self.findings or ("no drift found",)), *self.notes)]
        said += [f"recalibrated: run {self.recalibrated}"] if self.recalibrated else []
        said += [f"to do: {self.command}"] if self.command and not self.recalibrated else []
        return Result(
            title=f"Check {self.number} of {self.dataset}",
            sentences=[
                f"check {self.number} of {self.model}: {figures['triples']:,.0f} newly labelled triples",
                *lines,
                *said,
            ],
            run=self.run,
            rows=[{"figure": name, "value": round(value, 6)} for name, value in figures.items()],
            facts=asdict(self),
        )

    @property
    def new_base_rate(self) -> float:
        """Return the base rate for the answer `shift`, from the labels that do not belong to the exam."""
        return readable(self.metrics.get("calibration_base_rate", self.metrics["moved_base_rate"]))


def watch_champion(dataset: str, labels: Path, config: WatchConfig) -> WatchResult:
    """Measure the champion of a data set on newly labelled triples, and test whether its probabilities are still right.

    dataset  name of the data set, or the folder of the user's files
    labels   file of the labelled triples: subject, predicate, object, 1 or -1

    Triples in the train, valid and test splits of the champion's graph are dropped, because they are not new, and so
    are candidates whose labels it was fitted to. If the file, the champion and the settings have not changed since the
    newest check, that check is returned again. Else it is a new check of this champion, and the significance level of
    all its checks together is `config.alpha`. Then the exam of the data set gets its share of the labels.

    Raises InputError, before anything is changed, if the data set has no champion, if the file cannot be read, or if
    fewer than `config.at_least` triples are new.
    """
    store, dataset = open_store(), dataset_name(dataset)
    champion = aliased(store, dataset, CHAMPION)
    if champion is None:
        raise InputError(f"{dataset} has no champion to watch: run `kgcal promote --dataset {dataset}` first")
    limits = [config.alpha, config.ece, config.psi, config.at_least]
    identity = digest([METHOD, md5_of(labels), champion.model_id, limits])
    graph = sources_of(store, champion.model_id).graph
    with FileLock(store.home / "watch.lock"):
        history = store.find(RunTags(stage="watch", dataset=dataset), status=None)
        before = history[0] if history else None
        number = int(before.metrics.get("check", 0)) if before else 0
        if before and before.tags.check == identity:
            log.info("%s: champion, labels and settings have not changed: the newest check is shown again", dataset)
            found = store.load(before.run_id, _check_artifact(number))
            return replace(found, recalibrated=before.tags.recalibrated or "")

        checked = store.series(before.run_id, "champion").count(float(champion.number)) if before else 0
        measured, rate, dropped = _check(store, champion, labels, config, checked + 1)
        add_field_labels(graph, labels, config.exam_share)
        number += 1
        with store.open_run(
            f"watch {dataset}", RunTags(stage="watch", dataset=dataset), before.run_id if before else None
        ) as run_id:
            commands = {
                "shift": f"kgcal recalibrate {champion.uri} --base-rate {readable(rate):g}",
                "refit": f"kgcal recalibrate {champion.uri} --labels {labels}",
            }
            figures = measured.metrics() | {"calibration_base_rate": rate}
            found = WatchResult.of(dataset, champion.uri, measured, figures, commands, number, run_id, dropped)
            store.log_json(run_id, asdict(found), _check_artifact(number).path)
            measured_on = store.known(graph).dataset
            metrics = {**found.metrics, "check": float(number), "champion": float(champion.number)}
            store.log_metrics(run_id, metrics, number, champion.model_id, replace(measured_on, name=dataset))
            store.log_tags(run_id, RunTags(check=identity, recalibrated="", note=found.result().markdown()))
    return found


def mark_recalibrated(found: WatchResult, pipeline: str) -> WatchResult:
    """Log which pipeline recalibrated the model after a check, so that the same check starts no second pipeline.

    pipeline  run id of the pipeline
    """
    open_store().log_tags(found.run, RunTags(recalibrated=pipeline))
    return replace(found, recalibrated=pipeline)


def enough_to_replace(labels: Path, config: WatchConfig) -> bool:
    """Return whether the labels that belong to calibration can replace the validation split.

    If the map moved, the validation split shows the old map. Calibrators of the new labels alone are right, but have
    less data. FEWEST_OF_A_LABEL or more of the labels must be true, as many false.
    """
    labelled = read_labels(labels)
    true = labelled["label"][~for_exam(labelled, config.exam_share)]
    return bool(min(true.sum(), len(true) - true.sum()) >= FEWEST_OF_A_LABEL)


def readable(rate: float) -> float:
    """Return a base rate with four significant digits, if they leave it in (0, 1)."""
    rounded = float(f"{rate:.4g}")
    return rounded if 0 < rounded < 1 else rate


def _check(store: Store, champion: Version, labels: Path, config: WatchConfig, number: int) -> tuple[Check, float, str]:
    """Measure a calibrated model on the labelled triples that are new to it.

    number  number of this check of the champion, from 1

    Also return the moved base rate by the labels that belong to calibration, for a challenger that sits the exam: all
    labels if one of the two values is missing among these; and a sentence about the triples that are dropped.
    """
    frame, model = read_labels(labels), load_calibrated(store, champion.model_id)
    new, dropped = _new_to(model, frame)
    scores, probabilities, _ = model.predict(new)
    sources, bound = sources_of(store, champion.model_id), model.calibrator
    test = _test_predictions(store, sources)
    # the predictions of a run have the embedding model's scores; ensembles and combiners of evidence have their own
    reference = model.trained.score(test.triples)
    sample = calibration_sample(champion.model_id, model)
    origin = DriftReference(
        sample, bound.base_rate, bound.calibrator.by_predicate, reference, test.weights, bound.rate.limits
    )
    found, rows = new["label"].to_numpy(), model.graph.number(new)[0][:, 1]
    try:
        made = check(probabilities, NewTriples(scores, found, rows), origin, config, number)
    except InputError as error:
        raise InputError(f"{labels}: {error}" + (f". {dropped}" if dropped else "")) from None
    own = ~for_exam(new, config.exam_share)
    if own.all() or len(np.unique(found[own])) < 2 or made.report.answer != "shift":
        return made, made.evidence.moved_base_rate.value, dropped
    half = find_evidence(probabilities[own], NewTriples(scores[own], found[own], rows[own]), origin)
    return made, half.moved_base_rate.value, dropped


def _new_to(model: CalibratedModel, frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the labelled triples that a model can judge and has not seen, and a sentence about the others, if any."""
    graph, (triples, known) = model.graph, model.graph.number(frame)
    examples = examples_of_unknown_names(frame[~known], graph.entities, graph.predicates)
    reasons = [describe_unknown_names(int((~known).sum()), examples)] if not known.all() else []
    new = known.copy()
    places = {name: getattr(graph, name).triples for name in SPLITS} | {
        "the labelled candidates of its calibration": model.labelled
    }
    for place, seen in places.items():
        held = new.copy()
        held[new] = graph.index(seen).contains(triples[new])
        new &= ~held
        reasons += [f"{held.sum():,} in {place}"] if held.any() else []
    left_out = f"{(~new).sum():,} of {len(frame):,} labelled triples are left out: {', '.join(reasons)}"
    return frame[new], left_out if reasons else ""


def _test_predictions(store: Store, sources: Sources) -> Predictions:
    """Return the test predictions of the run that made a model. Raises InputError if there are none."""
    made_by = sources.run.run_id
    if sources.is_ensemble:
        return store.load(made_by, ENSEMBLE_PREDICTIONS)
    for classified in store.find(RunTags(stage="classify", inputs={"calibrate": made_by})):
        return store.load(classified.run_id, PREDICTIONS)
    raise InputError(
        "`watch` needs the test predictions of the champion, and the store has no classify run of calibrate run "
        f"{made_by}: run `kgcal classify --calibrators {made_by}`"
    )


def _check_artifact(number: int) -> Artifact[WatchResult]:
    return Artifact("watch", f"checks/{number}.json", lambda path: WatchResult(**read_json(path)))
