"""The exam of a data set in the store: its versions, the candidates that sit it, and their comparison.

The exam is made once, with a new version whenever field labels arrive. Each version is an MLflow run of stage `exam`,
with the questions as exam.parquet. A sitting compares candidates on the same questions and at the same base rate.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from filelock import FileLock

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.arrays import Bools, Probabilities
from kgcore.config import EXAM_SHARE, CalibrateConfig, GateConfig, PrepareConfig
from kgcore.data.datasets.labels import read_labels
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.wings.monitoring.exam import TEST, WEIGHT, Exam, Paper, first_exam, read_exam, write_exam
from kgcore.wings.monitoring.gate import Verdict, gate, level_of
from tasks.jobs.compare import comparison
from tasks.jobs.find_model import LEAST_SHARED, shared_facts
from tasks.stages.prepare import original_data
from tasks.stages.running import config_of
from tasks.tracking.artifacts import ENSEMBLE_SUMMARY, GRAPH, SUMMARY, Artifact, save
from tasks.tracking.keys import digest
from tasks.tracking.record import ENSEMBLE_NAME, RunTags
from tasks.tracking.registry import content_of, load_calibrated
from tasks.tracking.store import Store, open_store
from tasks.workspace.settings import temporary_folder

log = logging.getLogger("kgcal")
EXAM = Artifact("exam", "exam.parquet", read_exam, write_exam)
FEWEST_TRIPLES = 50  # a comparison needs at least so many questions that are new to both models


def exam_of(store: Store, dataset: str, prepared: str) -> Exam:
    """Return the newest version of the exam of a data set. Make it if there is none.

    prepared  a prepare run of the data set. If its test split is not that of the exam, a new version gets its test
              split
    """
    data = original_data(store, prepared)
    with FileLock(store.home / "locks" / f"exam-{dataset}.lock"):
        found = _newest(store, dataset)
        if found is not None and found.test == store.known(data).tags.test:
            return found
        graph = store.load(data, GRAPH)
        rule = config_of(PrepareConfig, store.get(data)).split_rule
        return _log(store, first_exam(graph, dataset, rule) if found is None else found.with_test_of(graph, rule))


def add_field_labels(prepared: str, labels: Path, share: float) -> None:
    """Add the exam's share of newly labelled triples to the exam of a data set. Without new ones, nothing changes.

    prepared  a prepare run of the data set
    labels    file of the labelled triples: subject, predicate, object, 1 or -1
    share     share of the labels that belong to the exam, in [0, 1); 0: none

    Raises InputError if the file cannot be read.
    """
    if share == 0:
        return
    store = open_store()
    labelled, data = read_labels(labels), original_data(store, prepared)
    dataset = store.known(data).dataset.name
    with FileLock(store.home / "locks" / f"exam-{dataset}.lock"):
        found, graph = _newest(store, dataset), store.load(data, GRAPH)
        rule = config_of(PrepareConfig, store.get(data)).split_rule
        exam = _log(store, first_exam(graph, dataset, rule)) if found is None else found
        changed = exam.with_labels(labelled, share, graph)
        if changed is not exam:
            _log(store, changed)
    if changed is not exam:
        text = "exam      version %d has %d field labels since the last champion: from %d on, they alone decide"
        log.info(text, changed.version, changed.field_labels(), GateConfig().field_labels)


def begin_era(store: Store, dataset: str) -> None:
    """Begin a new era of field labels: those until now have chosen a champion."""
    with FileLock(store.home / "locks" / f"exam-{dataset}.lock"):
        found = _newest(store, dataset)
        if found is not None:
            _log(store, found.next_era())


def _newest(store: Store, dataset: str) -> Exam | None:
    runs = store.find_all(RunTags(stage="exam", dataset=dataset))
    return store.load(max(runs, key=lambda run: int(run.tags.exam or 0)).run_id, EXAM) if runs else None


def _log(store: Store, exam: Exam) -> Exam:
    tags = RunTags(
        stage="exam", dataset=exam.dataset, test=exam.test, exam=str(exam.version), era=str(exam.era), note=_note(exam)
    )
    with (
        temporary_folder() as folder,
        store.open_run(f"exam {exam.dataset} {exam.version}", tags, resume=None) as run_id,
    ):
        save(folder, EXAM, exam)
        store.log_files(run_id, folder)
        eras = exam.questions["era"]
        counts = {"test": int((eras == TEST).sum()), "field": int((eras != TEST).sum()), "new": exam.field_labels()}
        store.log_metrics(run_id, {f"{name}_questions": float(count) for name, count in counts.items()})
        store.log_tags(run_id, RunTags(artifacts=store.sizes(run_id)))
    return exam


def _note(exam: Exam) -> str:
    negatives = "corruptions of them" if exam.synthetic else "labelled negatives"
    negatives = "with their confidences" if WEIGHT in exam.questions else negatives
    return (
        f"Version {exam.version} of the exam of {exam.dataset}: the positives of the test split, {negatives}, and "
        f"{int((exam.questions['era'] != TEST).sum()):,} field labels. The champion and every challenger are compared "
        "on it by `kgcal promote`."
    )


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

    rows      the rows of the comparison, those that are asked first at the top. Column `among`: each row is the best
              of so many calibrators
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
        """Return sentences about the candidates that were left out; '' if all stayed."""
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

    Raises InputError if no calibrator of the data set has a Brier score.
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


def choose(
    store: Store, measured: MeasuredCandidates, judged: Collection[str], most: int
) -> tuple[list[Candidate], int]:
    """Return the first candidates that were not judged, at most `most`, each calibrator once.

    judged  contents of the candidates that are not to be judged again

    Also return the number of calibrators from which they were chosen by their Brier score on test: those that lost in
    their evaluation, and those that wait for a later sitting, included.
    """
    chosen: dict[str, Candidate] = {}
    calibrators = 0
    for _, row in measured.rows.iterrows():
        if len(chosen) == most:
            calibrators += int(row["among"])
            continue
        label = f"{row['negatives']}.{row['calibrator']}"
        run = store.known(row["evaluate"])
        run = run if run.tags.stage == ENSEMBLE_NAME else store.known(run.tags.inputs["calibrate"])
        model_id = next(model_id for model_id in run.model_ids if store.model(model_id).label == label)
        content = content_of(store, model_id)
        if content[:16] not in judged:
            calibrators += int(row["among"])
            chosen.setdefault(content, Candidate(model_id, content, row["evaluate"], _words(row, label)))
    return list(chosen.values()), calibrators


def _words(row: "pd.Series[Any]", label: str) -> str:
    """Return the model and the loss of a row of the comparison, or the members of an ensemble, and the calibrator."""
    members = row.get("ensemble.members")
    made = f"{row['model']} of {members}" if isinstance(members, str) else f"{row['model']} {row['loss']}"
    return f"{made}, {label.replace('_', ' ')}"


def _miscalibration(store: Store, run_id: str, label: str) -> str:
    """Return a sentence if a run measured a calibration error above the tolerance; '' if it did not.

    label  of the calibrator or the ensemble

    Raises InputError if the summary of the run is missing.
    """
    ensemble = store.known(run_id).tags.stage == ENSEMBLE_NAME
    summary = store.load(run_id, ENSEMBLE_SUMMARY) if ensemble else store.load(run_id, SUMMARY)
    return summary.miscalibrated.get(label, "")


@dataclass(frozen=True)
class Sheet:
    """What the candidates of a sitting are judged on: questions and base rate, and who was judged on them before.

    paper      the questions
    base_rate  the base rate of the weights; None: the share of true triples among the field labels
    said       where the base rate comes from, as words
    number     number of this sitting among all sittings of the same era, from 1
    judged     contents of the candidates that were judged on these questions at this base rate
    exam       version of the exam
    """

    paper: Paper
    base_rate: float | None
    said: str
    number: int
    judged: frozenset[str]
    exam: int

    @property
    def identity(self) -> str:
        """Return a hash of the questions and the base rate."""
        return digest([self.paper.digest, self.base_rate])[:16]

    def described(self) -> str:
        """Return the kind of the questions and the base rate, as words."""
        if self.paper.era == TEST:
            kind = "the positives and corruptions of test" if self.paper.synthetic else "the test split"
        else:
            kind = f"{len(self.paper):,} field labels"
        return f"exam version {self.exam} ({kind}, {self.said})"


def sheet_of(store: Store, exam: Exam, base_rate: float | None, said: str, config: GateConfig) -> Sheet:
    """Return the sheet of the next sitting.

    base_rate  the base rate of the test part; None: of field labels, their share of true triples
    said       where `base_rate` comes from
    """
    paper = exam.paper(config.field_labels)
    sheet = Sheet(paper, base_rate, said, 1, frozenset(), exam.version)
    runs = store.find_all(RunTags(stage="promote", dataset=exam.dataset, era=str(paper.era)))
    judged = [content for run in runs if run.tags.paper == sheet.identity for content in run.tags.judged or ()]
    return replace(sheet, number=1 + len(runs), judged=frozenset(judged))


@dataclass
class StoredAnswers:
    """Probabilities of models for the questions of a paper. The scores of an embedding model are computed once."""

    paper: Paper
    _scores: dict[str, tuple[Bools, Probabilities]] = field(default_factory=dict)

    def of(self, model: CalibratedModel) -> tuple[Probabilities, Bools]:
        """Return probabilities (n,), and a mask (n,) of the questions that the model knows and was not fitted to."""
        key = f"{model.trained.fingerprint()} {model.graph.fingerprint()}"
        triples, known = model.graph.number(self.paper.names)
        if key not in self._scores:
            scores = np.full(len(self.paper), np.nan)
            scores[known] = model.trained.score(triples[known])
            self._scores[key] = (known, scores)
        known, scores = self._scores[key]
        q = np.full(len(self.paper), np.nan)
        q[known] = model.calibrator.predict(scores[known], model.trained.fingerprint(), triples[known, 1])
        return q, known & ~model.fitted_on(self.paper.names)


@dataclass(frozen=True)
class Judged:
    """A candidate and the verdict on it.

    refused  why it does not pass whatever the verdict is: its calibration error on its own test; '': nothing is against
             it
    """

    candidate: Candidate
    verdict: Verdict
    refused: str = ""

    @property
    def passed(self) -> bool:
        """Whether it may become the champion."""
        return self.verdict.passed and not self.refused

    def reason(self) -> str:
        """Return the comparison as a clause, and what is against it as a sentence."""
        return self.verdict.reason() + (f". {self.refused.removesuffix('.')}" if self.refused else "")


def sit(
    store: Store,
    sheet: Sheet,
    champion: CalibratedModel | None,
    candidates: Sequence[Candidate],
    counted: int,
    config: GateConfig,
) -> list[Judged]:
    """Compare candidates with the champion on the same questions. Return the best first.

    counted  number of challengers by which the level is divided

    Those that pass come first, and then the largest gain. A candidate or a champion that was fitted to some questions
    is judged without these. A candidate is judged only if at least FEWEST_TRIPLES questions remain.

    Raises InputError if fewer remain for the champion, or for every candidate, or if the champion has another graph.
    """
    answers, level = StoredAnswers(sheet.paper), level_of(sheet.number, counted, 1 - config.level)
    theirs, allowed = None, np.ones(len(sheet.paper), dtype=bool)
    if champion is not None:
        theirs, allowed = answers.of(champion)
        _check_enough(allowed, "the champion")
    judged, most = [], np.zeros(len(sheet.paper), dtype=bool)
    for number, candidate in enumerate(candidates, start=1):
        log.info("challenger %d of %d: %s", number, len(candidates), candidate.words)
        model = load_calibrated(store, candidate.model_id)
        if champion is not None:
            _check_same_graph(model.graph, champion)
        q, own = answers.of(model)
        most = own if own.sum() > most.sum() else most
        if (own & allowed).sum() < FEWEST_TRIPLES:
            continue
        chosen, rows = sheet.paper.rows(own & allowed, sheet.base_rate)
        verdict = gate(q[chosen], None if theirs is None else theirs[chosen], rows, config, level)
        judged.append(Judged(candidate, verdict, _miscalibration(store, candidate.evaluate, model.label)))
    if not judged:
        _check_enough(most & allowed, "every challenger")
    return sorted(judged, key=lambda one: (not one.passed, -one.verdict.brier.value))


def _check_enough(rows: Bools, whose: str) -> None:
    if rows.sum() < FEWEST_TRIPLES:
        raise InputError(
            f"{int(rows.sum()):,} triples of the exam are new to {whose}: at least {FEWEST_TRIPLES} are needed"
        )


def _check_same_graph(graph: KnowledgeGraph, champion: CalibratedModel) -> None:
    """Raise InputError if the champion was trained on a different graph with the same name."""
    shared = shared_facts(graph, champion.graph)
    if shared < LEAST_SHARED:
        raise InputError(
            f"the champion of {graph.name} was trained on a different graph with the same name: only {shared:.0%} of "
            "its training triples are in this graph, and at least 50% are needed. Rename the data set, or remove the "
            "alias `champion`"
        )
