"""Judges the candidates of a data set on its exam, and makes the best one the champion if it passes the gate.

A calibrator of scores is judged on the rows that measured it. The gate is a statistical comparison of challenger and
champion: see kgcore/wings/monitoring/gate.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock

from kgcore.arrays import Probabilities
from kgcore.base_rate import STATED, check_size
from kgcore.calibrate.fit import CANDIDATES
from kgcore.calibrate.sample import check_base_rate
from kgcore.config import CalibrateConfig, GateConfig
from kgcore.errors import InputError
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.report.card import ModelCard
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from kgcore.measure.report.result import Result
from kgcore.measure.report.summary import Summary
from kgcore.wings.external.calibrator import ScoreCalibrator
from kgcore.wings.external.rows import renumbered
from kgcore.wings.monitoring.exam import TEST, Exam
from kgcore.wings.monitoring.gate import Verdict, gate
from kgcore.wings.monitoring.paired import PairedRows
from tasks.jobs.compare import comparison, dataset_name
from tasks.jobs.exam import Judged, Sheet, begin_era, choose, exam_of, measured_candidates, sheet_of, sit, why_not
from tasks.jobs.find_model import FoundScores, registered_scores
from tasks.stages.choose import race_of
from tasks.tracking.artifacts import CALIBRATOR, COUNTS, ENSEMBLE_SUMMARY, PREDICATES, SCORE_CALIBRATOR, SUMMARY
from tasks.tracking.keys import digest
from tasks.tracking.mlmodel import complete_model
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.registry import (
    CHALLENGER,
    CHAMPION,
    Version,
    aliased,
    content_of,
    crown,
    describe,
    load_calibrated,
    register,
    set_alias,
    sources_of,
)
from tasks.tracking.store import Store, open_store

if TYPE_CHECKING:
    from kgcore.answer.calibrated_model import CalibratedModel


def datasets_with_results() -> list[str]:
    """Return the names of the data sets with a finished evaluation, sorted. Raises InputError if there are none."""
    return sorted(set(comparison()["dataset"]))


@dataclass(frozen=True)
class Decision:
    """The decision whether a challenger becomes the champion.

    dataset      name of the data set
    challenger   URI of the challenger; of the champion if no other candidate was judged
    champion     URI of the champion after the decision; None: the data set has no champion
    passed       whether the challenger passed the gate
    explanation  one sentence with the reason
    run          id of the MLflow run with the metrics of the comparison; None: no candidate was judged
    waiting      whether a person must approve the challenger before it becomes the champion
    """

    dataset: str
    challenger: str
    champion: str | None
    passed: bool
    explanation: str
    run: str | None
    waiting: bool = False


class Decisions(list[Decision]):
    """The decisions about the data sets that were asked for."""

    def result(self) -> Result:
        """Return why each challenger passed or failed the gate."""
        shown = ("dataset", "challenger", "champion", "passed")
        return Result(
            title="Challengers compared with champions",
            sentences=[decision.explanation for decision in self],
            run=next((decision.run for decision in self if decision.run), ""),
            rows=[{name: getattr(decision, name) for name in shown} for decision in self],
        )


def promote_best(dataset: str, base_rate: float | None, config: GateConfig) -> Decision:
    """Let the candidates of a data set sit its exam, and decide whether the best one becomes the champion.

    dataset    name of the data set, or the folder of the user's files
    base_rate  base rate of the exam, in (0, 1). None: field labels have their own. For the test split it is the base
               rate that was stated for the champion, or for the newest run; if none was stated, labelled triples have
               their own, and corruptions the champion's, or 0.5

    Calibrators that were fitted to a file of candidates are judged on labelled triples only: an exam of corruptions
    has other mistakes than the file.

    If the data set has no champion, candidates are compared with a constant probability, the base rate. A challenger
    passes if the gate passes it, and if its calibration error on its own test is not significantly above the tolerance:
    see kgcore/measure/evaluation/evaluate.py. Then it gets the alias `champion`, or waits for a person if
    `config.approve`. Its LoggedModel gets the embedding models and the graph, so that it can be served alone, and its
    version gets a model card as description.

    Raises InputError, before anything is changed, for a base rate out of range, if no calibrator was measured, if too
    few questions are new to the models, or if the champion was trained on a different graph.
    """
    if base_rate is not None:
        check_base_rate("base_rate", base_rate)
        check_size("base_rate", [base_rate])
    store, dataset = open_store(), dataset_name(dataset)
    with FileLock(store.home / "locks" / f"promote-{dataset}.lock"):
        return _promote(store, dataset, base_rate, config)


def _promote(store: Store, dataset: str, base_rate: float | None, config: GateConfig) -> Decision:
    measured = measured_candidates(store, dataset)
    exam, champion = exam_of(store, dataset, measured.prepared), aliased(store, dataset, CHAMPION)
    model = None
    if champion is not None:
        model = load_calibrated(store, champion.model_id)
    sheet = sheet_of(store, exam, *_base_rate(exam, model, measured.settings, base_rate, config), config)
    not_again = sheet.judged | ({content_of(store, champion.model_id)[:16]} if champion else set())
    if sheet.paper.synthetic:
        if champion is not None and model is not None and model.calibrator.negatives == CANDIDATES:
            why = f"version {champion.number} stays the champion. It is calibrated to candidates. {why_not(config)}"
            why = f"{dataset}: {why} This was {sheet.described()}."
            return Decision(dataset, champion.uri, champion.uri, False, why, None)
        measured = measured.without(CANDIDATES)
    candidates, calibrators = choose(store, measured, not_again, config.most_challengers)
    left_out = measured.not_judged(config)
    if not candidates:
        state = f"version {champion.number} is already the champion" if champion else "there is no champion"
        why = f"{dataset}: {state}, and there is no new challenger: all others were judged before in "
        why += sheet.described() + (f".{left_out}" if left_out else "")
        uri = champion.uri if champion else None
        return Decision(dataset, uri or "", uri, False, why, None)
    # Candidates were chosen by their Brier score on test. If test has the questions, a calibrator that was not chosen
    # counts, too: the best of several equal ones is better than the champion by chance. Field labels chose nobody.
    counted = calibrators if sheet.paper.era == TEST else len(candidates)
    judged = sit(store, sheet, model, candidates, counted, config)
    return _decide(store, dataset, champion, sheet, judged, counted, config, left_out)


def _base_rate(
    exam: Exam, champion: "CalibratedModel | None", newest: CalibrateConfig, given: float | None, config: GateConfig
) -> tuple[float | None, str]:
    """Return the base rate of the exam, None for the share of true triples among its labels, and its origin as words.

    newest  settings of the calibrators that were evaluated last
    """
    paper, theirs = exam.paper(config.field_labels), champion.calibrator if champion else None
    if given is not None:
        return given, f"weighted to the stated base rate {given:g}"
    if paper.era == TEST and theirs is not None and theirs.rate.origin == STATED:
        return theirs.base_rate, f"weighted to the champion's stated base rate {theirs.base_rate:g}"
    if paper.era == TEST and newest.rate.origin == STATED:
        return newest.rate.value, f"weighted to the base rate that the newest run states, {newest.rate.value:g}"
    if paper.era != TEST or not paper.synthetic:
        return None, "with its own base rate"
    if theirs is not None:
        return theirs.base_rate, f"weighted to the champion's base rate {theirs.base_rate:.4g}"
    return newest.rate.value, f"weighted to the {newest.rate.origin} base rate {newest.rate.value:.4g}"


def _decide(
    store: Store,
    dataset: str,
    champion: Version | None,
    sheet: Sheet,
    judged: Sequence[Judged],
    counted: int,
    config: GateConfig,
    left_out: str,
) -> Decision:
    """Register the best candidate as challenger, log the decision and, if nobody has to approve, carry it out.

    counted   by how many challengers the level was divided
    left_out  sentences about candidates that are not judged; '': there are none
    """
    best, verdict = judged[0].candidate, judged[0].verdict
    version = register(store, dataset, best.model_id, best.words)
    complete_model(store, version.model_id)
    describe(store, dataset, version, model_card(store, version, best.evaluate).markdown())
    passed = judged[0].passed
    waiting = passed and config.approve
    why = _explanation(dataset, version, champion, sheet, judged)
    what = "It waits for approval." if waiting else "It is the new champion."
    why = f"{why}. {what if passed else 'It is not promoted.'}{left_out}"
    decision = Decision(dataset, version.uri, champion.uri if champion else None, passed, why, None, waiting)
    tags = RunTags(
        stage="promote",
        dataset=dataset,
        exam=str(sheet.exam),
        era=str(sheet.paper.era),
        paper=sheet.identity,
        judged=[one.candidate.content[:16] for one in judged if waiting or not (one is judged[0] and passed)],
        note=why,
    )
    with store.open_run(f"promote {dataset}", tags) as run_id:
        named = {"dataset": dataset, "challenger": version.uri, "champion": decision.champion}
        counts = {"candidates": len(judged), "counted": counted, "exam": sheet.described()}
        store.log_params(run_id, named | config.as_dict() | counts)
        sample = DatasetId(dataset, sheet.paper.digest)
        store.log_metrics(run_id, _metrics(verdict, passed), model_id=version.model_id, dataset=sample)
        set_alias(store, dataset, CHALLENGER, version)
        decision = replace(decision, run=run_id)
        if passed and not waiting:
            decision = _make_champion(store, decision, version, sheet.paper.era, verdict.brier.value)
    return decision


def _explanation(
    dataset: str, version: Version, champion: Version | None, sheet: Sheet, judged: Sequence[Judged]
) -> str:
    best = judged[0].candidate
    against = f"the champion, version {champion.number}" if champion else "the base rate, as there is no champion yet"
    among = f"the best of {len(judged)}" if len(judged) > 1 else "the only new challenger"
    return (
        f"{dataset}: version {version.number} ({best.words}), {among}, against {against}, in {sheet.described()}: "
        f"{judged[0].reason()}"
    )


def _make_champion(store: Store, decision: Decision, version: Version, era: int, gain: float) -> Decision:
    """Make a version the champion. If field labels have chosen it, later field labels begin a new era."""
    crown(store, decision.dataset, version, decision.champion, gain, decision.explanation)
    if era != TEST:
        begin_era(store, decision.dataset)
    return replace(decision, champion=version.uri, waiting=False)


def promote_scores(
    store: Store, found: FoundScores, predictions: Predictions, candidates: int, config: GateConfig
) -> Decision:
    """Register a calibrator as challenger of its scorer, and compare it with the champion at the same base rate.

    predictions  probabilities of the measured rows
    candidates   number of calibrators among which it is the best

    Without a champion, it is compared with the constant base rate. The challenger did not see the labels of these
    rows. The champion did if it was fitted to some of them, which favours the champion.

    Raises InputError if the champion takes scores of another scale, or those of another scorer.
    """
    challenger = found.calibrator
    name, label = registered_scores(challenger.scorer), challenger.bound.label
    with FileLock(store.home / "locks" / f"promote-{name}.lock"):
        champion = aliased(store, name, CHAMPION)
        other = store.load_model(champion.model_id, SCORE_CALIBRATOR) if champion else None
        if other is not None and other.scorer != challenger.scorer:
            raise InputError(
                f"the champion of {challenger.scorer!r} would be that of {other.scorer!r}, whose name differs in marks "
                "only: give the scorer another name"
            )
        version = register(store, name, found.model_id, f"{label} of {challenger.scorer}", digest(challenger.to_json()))
        set_alias(store, name, CHALLENGER, version)
        if champion is not None and champion.number == version.number:
            reason = f"{version.uri} ({label}) is already the champion"
            return Decision(challenger.scorer, version.uri, version.uri, False, reason, None)
        count = len(predictions.labels)
        rows = PairedRows(
            predictions.labels, predictions.weights, np.arange(count), challenger.bound.rate.origin == STATED
        )
        verdict = gate(
            predictions.probabilities[label],
            None if other is None else _of_champion(other, challenger, predictions),
            rows,
            config,
            (1 - config.level) / 2 / candidates,  # Bonferroni: it is the best of several
        )
        against = f"the champion, {champion.uri}" if champion else "the base rate, as there is no champion yet"
        outcome = "It is the new champion." if verdict.passed else "It is not promoted."
        reason = f"{version.uri} ({label}) against {against}: {verdict.reason()}. {outcome}"
        if verdict.passed:
            crown(store, name, version, champion.uri if champion else None, verdict.brier.value, reason)
        now = version if verdict.passed else champion
        return Decision(
            challenger.scorer,
            version.uri,
            now.uri if now else None,
            verdict.passed,
            reason.replace(" triples ", " rows "),
            None,
        )


def _of_champion(champion: ScoreCalibrator, challenger: ScoreCalibrator, predictions: Predictions) -> Probabilities:
    """Return the champion's probabilities of the measured rows, at the base rate of the challenger."""
    if champion.scale != challenger.scale:
        raise InputError(
            f"the champion of {champion.scorer} takes scores of --scale {champion.scale}, the challenger of --scale "
            f"{challenger.scale}: give the same scale, or remove the alias `champion`"
        )
    relations = renumbered(challenger.relations, champion.relations, predictions.triples[:, 1])
    return champion.at(challenger.bound.base_rate).calibrate(predictions.scores, relations)[0]


def approve(decision: Decision, yes: bool | None) -> Decision:
    """Carry out the answer of a person about a challenger that waits.

    yes  whether it becomes the champion; None: nobody has answered. Then the next `kgcal promote` judges it again

    Raises InputError if the champion or the challenger has changed since the comparison.
    """
    store, dataset = open_store(), decision.dataset
    run = store.get(decision.run or "")
    with FileLock(store.home / "locks" / f"promote-{dataset}.lock"):
        champion, challenger = aliased(store, dataset, CHAMPION), aliased(store, dataset, CHALLENGER)
        same = (champion.uri if champion else None) == decision.champion
        if not same or challenger is None or challenger.uri != decision.challenger:
            raise InputError(
                f"{dataset}: the champion or the challenger has changed while {decision.challenger} waited for "
                "approval: start `kgcal promote` again"
            )
        said = "A person has approved it: it is the new champion." if yes else "A person has refused it."
        said = "Nobody has answered: it is not promoted." if yes is None else said
        why = decision.explanation.replace("It waits for approval.", said)
        kept = run.tags.judged if yes is False else list(run.tags.judged or ())[1:]
        store.log_tags(run.run_id, RunTags(note=why, judged=kept))
        decision = replace(decision, explanation=why, waiting=False)
        era, gain = int(run.tags.era or TEST), run.metrics["brier_gain"]
        return _make_champion(store, decision, challenger, era, gain) if yes else decision


def _metrics(verdict: Verdict, passed: bool) -> dict[str, float]:
    """Return the differences that the gate tested, the ends of their intervals, and `passed` (1 or 0), as metrics."""
    figures = {"brier_gain": verdict.brier}
    figures |= {"calibration_excess": verdict.calibration} if verdict.calibration else {}
    metrics = {name: estimate.value for name, estimate in figures.items()}
    metrics |= {f"{name}_low": estimate.low for name, estimate in figures.items()}
    metrics |= {f"{name}_high": estimate.high for name, estimate in figures.items()}
    return metrics | {"passed": float(passed)}


def model_card(store: Store, version: Version, measured: str) -> ModelCard:
    """Return the model card of a version.

    measured  id of the run that measured it: an evaluate run, or the run of an ensemble

    Raises InputError if a run or an artifact is missing.
    """
    run, sources = store.known(measured), sources_of(store, version.model_id)
    runs = {stage: run_id for stage, run_id in run.lineage.items() if "." not in stage}
    records = {stage: store.known(run_id) for stage, run_id in runs.items()}
    prepared, calibrated = records["prepare"], store.load_model(version.model_id, CALIBRATOR)
    trained = [store.known(store.model(base).run_id or "") for base in sources.models]
    counts, predicates = store.load(prepared.run_id, COUNTS), store.load(prepared.run_id, PREDICATES)
    summary: Summary | EnsembleSummary
    summary = store.load(measured, ENSEMBLE_SUMMARY) if sources.is_ensemble else store.load(measured, SUMMARY)
    return ModelCard(
        uri=version.uri,
        dataset=prepared.dataset.name,
        digest=prepared.dataset.digest,
        counts=counts,
        predicates=predicates,
        settings={stage: dict(record.tags.config or {}) for stage, record in records.items() if stage != "train"},
        trainings=[dict(record.tags.config or {}) for record in trained],
        label=calibrated.label,
        calibrator=calibrated,
        summary=summary,
        runs=runs,
        race=race_of(store, trained[0]) if not sources.is_ensemble else None,
    )
