"""The candidates of a data set: which calibrators and ensembles sit the exam."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Self

import pandas as pd

from kgcore.config import EXAM_SHARE, CalibrateConfig, GateConfig
from kgcore.errors import InputError
from tasks.jobs.compare import comparison
from tasks.stages.prepare import original_data
from tasks.stages.running import config_of
from tasks.tracking.artifacts import ENSEMBLE_SUMMARY, SUMMARY
from tasks.tracking.labels import ENSEMBLE_NAME
from tasks.tracking.registry import content_of
from tasks.tracking.store import Store


@dataclass(frozen=True)
class Candidate:
    """A calibrator or an ensemble that was measured.

    model_id   id of its LoggedModel
    content    hash of its contents: equal calibrators have equal hashes
    evaluate   the run that measured it
    words      its model, loss and calibrator, for a sentence
    """

    model_id: str
    content: str
    evaluate: str
    words: str


@dataclass(frozen=True)
class MeasuredCandidates:
    """The evaluated candidates of a data set.

    rows      the rows of the comparison, those that are asked first at the top. Column `among`: the number of
              calibrators of which a row is the best
    prepared  prepare run of the newest evaluation, without labels that were added later
    settings  settings of the calibrators of the newest evaluation
    left_out  number of candidates that cannot be judged on the exam
    """

    rows: pd.DataFrame
    prepared: str
    settings: CalibrateConfig
    left_out: int = 0

    def without(self, negatives: str) -> Self:
        """Return the candidates that were not fitted on this kind of negatives."""
        own = self.rows["negatives"] == negatives
        return replace(self, rows=self.rows[~own], left_out=int(own.sum()))

    def not_judged(self, config: GateConfig) -> str:
        """Return sentences about the candidates that were left out; '' if there are none."""
        if not self.left_out:
            return ""
        several = "s" if self.left_out > 1 else ""
        return f" Not judged: {self.left_out} calibrator{several} fitted to candidate triples. {why_not(config)}"


def why_not(config: GateConfig) -> str:
    """Return why corruptions cannot judge calibrators that are fitted to candidate triples, and what to do."""
    return (
        "The false triples of this exam are corruptions, not the candidates' mistakes. To judge such calibrators, "
        f"label about {round(config.field_labels / EXAM_SHARE):,} candidate triples, drawn at random, and run `kgcal "
        "recalibrate --labels FILE`."
    )


def measured_candidates(store: Store, dataset: str) -> MeasuredCandidates:
    """Return the best candidates of every evaluation on the newest test split, in the order in which they are asked.

    An evaluation sends its best calibrator of each kind of negatives (labelled, candidate triples, synthetic), by Brier
    score on test. First come the best of each group: evaluations on the same data, test sample and base rate. Then the
    second of each group, and so on; in each of these ranks, the newest evaluation first. So calibrators for other base
    rates, and those that learned from new labels, come early although the test split of earlier days may favour others.

    Raises InputError if there is none.
    """
    frame = comparison("brier", dataset)
    frame = frame[(frame["negatives"] != "none") & frame["brier"].notna() & (frame["digest"] != "")]
    if frame.empty:
        raise InputError(f"no calibrator of {dataset} has a Brier score: run `kgcal run --dataset {dataset}` first")
    prepared = {run: store.known(run).tags.inputs["prepare"] for run in frame["evaluate"].unique()}
    tests = {data: store.known(data).tags.test for data in set(prepared.values())}
    frame = frame.assign(data=frame["evaluate"].map(prepared))
    newest = frame.sort_values("when").iloc[-1]
    frame = frame[frame["data"].map(tests) == tests[newest["data"]]]
    frame = frame.assign(among=frame.groupby(["evaluate", "negatives"])["brier"].transform("size"))
    best = frame.sort_values("brier", kind="stable").drop_duplicates(["evaluate", "negatives"])
    rank = best.groupby(["data", "digest", "test", "base_rate", "negatives"]).cumcount()
    ordered = best.assign(rank=rank).sort_values(["rank", "when"], ascending=[True, False], kind="stable")
    inputs = store.known(newest["evaluate"]).tags.inputs
    calibrated = store.known(inputs.get("calibrate", inputs.get("calibrate.1", "")))
    return MeasuredCandidates(ordered, original_data(store, newest["data"]), config_of(CalibrateConfig, calibrated))


@dataclass(frozen=True)
class Choice:
    """The candidates that are judged together.

    candidates   at most as many as asked for
    calibrators  number of calibrators from which they were chosen by their Brier score on test: those that lost in
                 their evaluation, and those that wait for a later sitting, included
    """

    candidates: list[Candidate]
    calibrators: int


def choose(store: Store, measured: MeasuredCandidates, judged: Collection[str], most: int) -> Choice:
    """Return the first candidates that were not judged, at most `most`, each calibrator once.

    judged  contents of the candidates that are not to be judged again
    """
    chosen: dict[str, Candidate] = {}
    calibrators = 0
    for _, row in measured.rows.iterrows():
        if len(chosen) == most:
            calibrators += int(row["among"])
            continue
        label = f"{row['negatives']}.{row['calibrator']}"
        model_id = _model_id(store, row["evaluate"], label)
        content = content_of(store, model_id)
        if content[:16] not in judged:
            calibrators += int(row["among"])
            chosen.setdefault(content, Candidate(model_id, content, row["evaluate"], _words(row, label)))
    return Choice(list(chosen.values()), calibrators)


def _model_id(store: Store, evaluate: str, label: str) -> str:
    """Return the id of the LoggedModel with this label that an evaluate run or an ensemble's run measured."""
    model_ids = measured_models(store, evaluate)
    return next(model_id for model_id in model_ids if store.model(model_id).label == label)


def _words(row: "pd.Series[Any]", label: str) -> str:
    """Return the model and the loss of a row of the comparison, or the members of an ensemble, and the calibrator."""
    members = row.get("ensemble.members")
    made = f"{row['model']} of {members}" if isinstance(members, str) else f"{row['model']} {row['loss']}"
    return f"{made}, {label.replace('_', ' ')}"


def measured_models(store: Store, run_id: str) -> tuple[str, ...]:
    """Return the ids of the LoggedModels that a run measured: calibrators, or ensembles."""
    run = store.known(run_id)
    return run.model_ids if run.tags.stage == ENSEMBLE_NAME else store.known(run.tags.inputs["calibrate"]).model_ids


def miscalibration(store: Store, run_id: str, label: str) -> str:
    """Return a sentence if a run measured a calibration error above the tolerance; '' if it did not.

    label  of the calibrator or the ensemble

    Raises InputError if the summary of the run is missing.
    """
    ensemble = store.known(run_id).tags.stage == ENSEMBLE_NAME
    summary = store.load(run_id, ENSEMBLE_SUMMARY) if ensemble else store.load(run_id, SUMMARY)
    return summary.miscalibrated.get(label, "")
