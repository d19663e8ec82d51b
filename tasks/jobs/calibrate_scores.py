"""Calibrates the scores of any scorer. No graph is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from filelock import FileLock
from scipy.special import expit

from kgcore.answer.sink import check_ending, sink
from kgcore.arrays import Probabilities
from kgcore.base_rate import BaseRate
from kgcore.calibrate.fit import labelled_sample
from kgcore.config import EvaluateConfig, GateConfig, ScoresConfig, WatchConfig
from kgcore.errors import InputError
from kgcore.measure.report.plots import reliability_figures
from kgcore.measure.report.result import Result, runs_text
from kgcore.measure.report.scores import ScoresSummary, scores_page
from kgcore.scores.table import ScoreTable
from kgcore.storage.folders import write_json, write_measured
from kgcore.wings.external.calibrator import RELATION, SCORE, ScoreCalibrator
from kgcore.wings.external.fit import FittedScores, fit_and_measure, usable
from kgcore.wings.external.rows import (
    ScoreFile,
    in_halves,
    read_new_rows,
    read_scores,
    renumbered,
    stored_rows,
    tables_after,
)
from kgcore.wings.external.tables import check_table
from kgcore.wings.monitoring.drift import DriftReference, check, find_evidence
from kgcore.wings.monitoring.two_samples import NewTriples
from tasks.jobs.find_model import Ask, FoundScores, chosen, find_scores, registered_scores
from tasks.jobs.promote import promote_scores
from tasks.jobs.request import MOST_EXAMPLES
from tasks.jobs.watch import FEWEST_OF_A_LABEL, WatchResult, readable
from tasks.tracking.artifacts import REPORT, SCORE_ROWS, save
from tasks.tracking.mlmodel import EXAMPLES, log_score_calibrator
from tasks.tracking.record import (
    APPLY_SCORES,
    CALIBRATE_SCORES,
    EVALUATION,
    WATCH_SCORES,
    DatasetId,
    RunTags,
    labelled_metrics,
)
from tasks.tracking.registry import CHAMPION, registered_name, run_of_model
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.settings import temporary_folder

# settings that may be given beside a stored calibrator: what it needs, and the columns of labelled files
OF_STORED = ("score", "relation", "scorer", "base_rate", "label", "weight", "split")


@dataclass(frozen=True)
class ScoresRequest:
    """What a user asks `calibrate-scores` to do.

    file        file of labelled scores; '': none, a stored calibrator answers
    apply       file of scores without labels; '': none
    output      file for their probabilities
    model       stored calibrator to use, if no labelled scores are given: see `locate`
    watch       whether a stored calibrator is checked on the labelled scores, and none is fitted
    recalibrate whether calibrators are fitted again if the check finds drift
    promote     whether the calibrator is registered, and made the champion of its scorer if it passes the gate
    calibrator  label of the calibrator to use; '': the one with the best Brier score
    """

    file: str = ""
    apply: str = ""
    output: str = ""
    model: str = ""
    calibrator: str = ""
    promote: bool = False
    watch: bool = False
    recalibrate: bool = False

    def check(self) -> None:
        """Raise InputError for files that cannot be used, and for options that do not fit together."""
        if self.apply and not self.output:
            raise InputError(f"--apply {self.apply} needs --output FILE: the file for the probabilities")
        if self.output and not self.apply:
            raise InputError(f"--output {self.output} needs --apply FILE: the rows that get probabilities")
        if self.apply:
            check_table(Path(self.apply))
            check_ending(Path(self.output))
            if Path(self.apply).resolve() == Path(self.output).resolve():
                raise InputError(f"--apply and --output both are {self.apply}: write the answers to another file")
        if self.watch and (not self.file or self.apply or self.promote):
            raise InputError("--watch needs a file of newly labelled scores, and neither --apply nor --promote")
        if self.recalibrate and not self.watch:
            raise InputError("--recalibrate needs --watch: calibrators are fitted again if the check finds drift")
        if self.file and self.model and not self.watch:
            raise InputError(f"{self.file} and --model {self.model} are given: give one of them")
        if self.file:
            check_table(Path(self.file))
        elif self.promote:
            raise InputError("--promote needs a file of labelled scores: a calibrator is promoted when it is fitted")
        elif not (self.model and self.apply):
            raise InputError("give a file of labelled scores, or --model with --apply: there is nothing to do")


@dataclass(frozen=True)
class ScoresResult:
    """The result of `calibrate-scores`.

    found      the calibrator that answers
    run        id of the MLflow run
    summary    how good the calibrators are; None if none was fitted
    report     path of the report; '' without a fit
    promotion  whether the calibrator became the champion, and why, in a sentence; '' if nobody asked
    answers    how many rows were answered, in a sentence; '' without `--apply`
    examples   the first of these rows
    """

    found: FoundScores
    run: str
    summary: ScoresSummary | None = None
    report: str = ""
    promotion: str = ""
    answers: str = ""
    examples: Sequence[Mapping[str, object]] = ()

    def result(self) -> Result:
        """Return the results of the calibrators, the counts of the answers, and the places."""
        summary, bound, uri = self.summary, self.found.calibrator.bound, self.found.uri
        model = f"model: {uri} ({bound.label}), base rate {bound.rate}"
        return Result(
            title=f"Scores of {self.found.calibrator.scorer}",
            verdict=summary.brief.verdict if summary else "",
            tables=[summary.results.table(bound.label, notes=summary.notes)] if summary else [],
            sentences=[line for line in (self.answers, self.promotion, model) if line],
            files={"report": self.report},
            run=self.run,
            rows=() if summary else self.examples,
            facts=summary.to_json() if summary else {},
        )


def apply_scores(store: Store, result: ScoresResult, request: ScoresRequest, config: ScoresConfig) -> ScoresResult:
    """Write the rows of `request.apply` with the columns probability, low and high added. Return the result with them.

    Raises InputError for wrong values, with file and line. Then no output file is left behind.
    """
    rows, expected, examples = 0, 0.0, list[dict[str, object]]()
    answers = result.found.calibrator.answer_file(Path(request.apply), config.score, config.relation)
    with progress_bar("apply", 100) as move, sink(Path(request.output)) as write:
        for table, done in answers:
            write(table)
            rows += len(table)
            expected += float(np.sum(table["probability"].to_numpy()))
            examples += table.slice(0, max(0, MOST_EXAMPLES - len(examples))).to_pylist()
            move(int(100 * done), f"{rows:,} rows")
    store.log_metrics(result.run, {"rows": float(rows), "expected": expected}, model_id=result.found.model_id)
    said = f"{rows:,} rows, {expected:,.1f} expected to be true: {request.output}"
    return replace(result, answers=said, examples=examples)


def log_fit(
    store: Store,
    fitted: FittedScores,
    request: ScoresRequest,
    config: ScoresConfig,
    evaluation: EvaluateConfig,
    fits: int = 1,
) -> ScoresResult:
    """Log the calibrators as a run. Promote the best one, and apply it to a file, if the request asks for it.

    fits  number of fits among which this one is the best
    """
    labels = {calibrator.bound.label: calibrator for calibrator in fitted.calibrators}
    label = chosen(request.calibrator, list(labels)) if request.calibrator else fitted.best[0]
    with store.open_run(f"scores of {config.named}", RunTags(stage=CALIBRATE_SCORES, dataset=config.named)) as run_id:
        params = {**config.as_dict(), **evaluation.as_dict(), "base_rate": fitted.summary.base_rate}
        store.log_params(run_id, {**params, "file": Path(request.file).name, "best": label})
        ids = _log_models(store, run_id, fitted)
        found = FoundScores(ids[label], f"models:/{ids[label]}", labels[label])
        settings = {CALIBRATE_SCORES: config.as_dict(), "evaluate": evaluation.as_dict()}
        result = ScoresResult(found, run_id, fitted.summary, _log_report(store, run_id, fitted, settings))
        if request.promote:
            decision = promote_scores(store, found, fitted.predictions, fits * len(usable(config)), GateConfig())
            promoted = replace(found, uri=decision.challenger)
            result = replace(result, found=promoted, promotion=decision.explanation)
            store.log_metrics(run_id, {"promoted": float(decision.passed)}, model_id=ids[label])
        return apply_scores(store, result, request, config) if request.apply else result


def _log_models(store: Store, run_id: str, fitted: FittedScores) -> dict[str, str]:
    """Log every calibrator as a LoggedModel with its metrics. Return label -> id of the LoggedModel."""
    ids, few = {}, stored_rows(fitted.table, EXAMPLES)
    scores = expit(few.scores) if fitted.calibrators[0].scale == "probability" else few.scores
    names = {RELATION: [few.relations[number] for number in few.triples[:, 1]]} if few.relations else {}
    example = pd.DataFrame({SCORE: scores, **names})
    dataset = DatasetId(fitted.summary.scorer, fitted.table.dataset)
    store.log_dataset(run_id, dataset, dataset.name, asdict(fitted.summary.counts), EVALUATION)
    for number, calibrator in enumerate(fitted.calibrators):
        label = calibrator.bound.label
        ids[label] = log_score_calibrator(store, run_id, number, calibrator, example)
        metrics = labelled_metrics(label, fitted.measured[label].with_ends())
        store.log_metrics(run_id, metrics, model_id=ids[label], dataset=dataset)
    return ids


def _log_report(store: Store, run_id: str, fitted: FittedScores, settings: dict[str, dict[str, object]]) -> str:
    """Log the summary, the measurements, the diagrams and the page, also to the home. Return the page's path."""
    figures, summary = reliability_figures(fitted.measured), fitted.summary
    with temporary_folder() as folder:
        (folder / "figures").mkdir()
        write_json(folder / "summary.json", summary.to_json())
        write_measured(folder / "measured.json", fitted.measured)
        save(folder, SCORE_ROWS, stored_rows(fitted.table))
        curves = {label: found.reliability for label, found in fitted.measured.items()}
        page = scores_page(summary, figures, settings, {CALIBRATE_SCORES: run_id}, curves)
        (folder / REPORT.path).write_text(page, encoding="utf-8")
        for title, figure in figures.items():
            figure.savefig(folder / "figures" / f"{title}.png", dpi=150)
        place = store.log_report(run_id, folder)
    note = summary.results.table(notes=[*summary.notes, runs_text({CALIBRATE_SCORES: run_id})])
    store.log_tags(run_id, RunTags(note=f"{summary.brief.markdown()}\n\n{note.markdown()}"))
    return str(place / REPORT.path)


def calibrate_scores(
    request: ScoresRequest, config: ScoresConfig, evaluation: EvaluateConfig
) -> ScoresResult | WatchResult:
    """Fit calibrators to labelled scores, measure and log them, and give other rows their probabilities.

    With `watch`, a stored calibrator is checked instead; `recalibrate_scores` says what `recalibrate` adds. Without
    labelled scores, a stored calibrator gives the probabilities; a base rate in `config` shifts it.

    Raises InputError for wrong files, with file and line, FitError if a fit does not converge, and MismatchError if a
    stored calibrator belongs to another scorer.
    """
    request.check()
    store = open_store()
    if request.watch:
        seen = watch_scores(store, request, config)
        return recalibrate_scores(store, seen, request, config, evaluation) if request.recalibrate else seen
    if not request.file:
        _check_unused(config)
        return _apply_stored(store, request, config)
    usable(config)
    with progress_bar("read", 100) as move:
        file = read_scores(Path(request.file), config, lambda done: move(int(100 * done)))
    return log_fit(store, fit_and_measure(file, config, evaluation, progress_bar), request, config, evaluation)


def _check_unused(config: ScoresConfig) -> None:
    """Raise InputError if a setting of a fit is given, because a stored calibrator answers."""
    default = ScoresConfig().as_dict()
    given = [name for name, value in config.as_dict().items() if name not in OF_STORED and value != default[name]]
    if given:
        options = ", ".join(f"--{name}" for name in given).replace("_", "-")
        raise InputError(f"--model names a calibrator that is fitted already: leave out {options}")


def _apply_stored(store: Store, request: ScoresRequest, config: ScoresConfig) -> ScoresResult:
    """Give the rows of a file the probabilities of a stored calibrator."""
    found = find_scores(Ask(request.model, calibrator=request.calibrator, scorer=config.named))
    found = replace(found, calibrator=found.calibrator.at(config.base_rate))
    with store.open_run(f"apply scores of {config.named}", RunTags(stage=APPLY_SCORES, dataset=config.named)) as run_id:
        asked = {"score": config.score, "relation": config.relation, "apply": Path(request.apply).name}
        answers = {"model": found.uri, "base_rate": found.calibrator.bound.base_rate}
        store.log_params(run_id, asked | answers)
        return apply_scores(store, ScoresResult(found, run_id), request, config)


def watch_scores(store: Store, request: ScoresRequest, config: ScoresConfig) -> WatchResult:
    """Measure a calibrator of scores on newly labelled rows, and test whether its probabilities are still right.

    The rows of `request.file` are a random sample of the rows that are asked about. `request.model` names the
    calibrator; '': the champion of the scorer. The rows must be new: the calibrator must not be fitted to them. Every
    check of the calibrators of a fit counts, so that the error level of all of them together is that of `WatchConfig`.

    Raises InputError as `read_new_rows` and `find_scores` do, for the rows of the fit, and for too few rows.
    """
    limits, path = WatchConfig(), Path(request.file)
    uri = request.model or f"models:/{registered_name(registered_scores(config.named))}@{CHAMPION}"
    found = find_scores(Ask(uri, calibrator=request.calibrator, scorer=config.named))
    made_by = run_of_model(store, f"models:/{found.model_id}")
    new = read_new_rows(path, config)
    if new.dataset == found.calibrator.bound.dataset:
        raise InputError(f"{path} has the rows that the calibrator was fitted to: give newly labelled rows")
    if len(new) < limits.at_least:
        raise InputError(f"{path} has {len(new):,} rows: the tests need at least {limits.at_least}")
    tags = RunTags(stage=WATCH_SCORES, dataset=config.named, inputs={CALIBRATE_SCORES: made_by})
    with FileLock(store.home / "watch.lock"):
        number = 1 + len(store.find_all(tags))
        compared = _compared(new, store.load(made_by, SCORE_ROWS), found.calibrator)
        measured = check(*compared, limits, number)
        with store.open_run(f"watch scores of {config.named}", tags) as run_id:
            rate, model = readable(measured.evidence.moved_base_rate.value), found.uri
            scores = f"--scorer {config.named} --score {config.score}"
            shift = f"--model {model} {scores} --base-rate {rate:g} --apply FILE --output FILE"
            commands = {
                "shift": f"kgcal calibrate-scores {shift}",
                "refit": f"kgcal calibrate-scores {path} {scores} --label {config.label} --promote",
            }
            seen = WatchResult.of(config.named, model, measured, measured.metrics(), commands, number, run_id)
            findings, notes = ([text.replace("triple", "row") for text in said] for said in (seen.findings, seen.notes))
            seen = replace(seen, findings=findings, notes=notes)
            store.log_params(run_id, {"file": path.name, "model": model, **limits.as_dict()})
            metrics = {**seen.metrics, "check": float(number)}
            store.log_metrics(run_id, metrics, model_id=found.model_id)
            store.log_tags(run_id, RunTags(note=seen.result().markdown()))
    return seen


def recalibrate_scores(
    store: Store, seen: WatchResult, request: ScoresRequest, config: ScoresConfig, evaluation: EvaluateConfig
) -> WatchResult:
    """Fit calibrators again if a check asks for it. The best becomes the champion if it passes the gate.

    Half of the new rows, drawn at random, is for the fit and for the new base rate. The other half measures the
    calibrators and the champion, so no calibrator is measured on rows that it was fitted to. If the map has moved, two
    fits are compared: see `tables_after`.

    Returns the check, with the run of the new calibrators and the decision of the gate among its notes; the check as it
    was, if it asks for nothing that a fit can do.

    Raises InputError if only the old or only the new rows have relations.
    """
    if seen.answer not in ("shift", "refit"):
        return seen
    found = find_scores(Ask(seen.model, scorer=config.named))
    old = store.load(run_of_model(store, seen.model), SCORE_ROWS)
    new = in_halves(read_new_rows(Path(request.file), config), config.fold_seed)
    half = new.part(new.rows("valid"))
    rate = float(half.labels.mean())
    if seen.answer == "shift":
        rate = find_evidence(*_compared(half, old, found.calibrator)).moved_base_rate.value
    config = config.replace(base_rate=readable(rate))
    tables = tables_after(seen.answer, old, new, readable(rate), FEWEST_OF_A_LABEL)
    fits = [
        (what, fit_and_measure(ScoreFile(table), config, evaluation, progress_bar)) for what, table in tables.items()
    ]
    what, fitted = min(fits, key=lambda fit: fit[1].best[1])
    asks = replace(request, watch=False, recalibrate=False, promote=True, calibrator="")
    result = log_fit(store, fitted, asks, config, evaluation, len(fits))
    store.log_tags(seen.run, RunTags(recalibrated=result.run))
    said = f"calibrators were fitted to {what}: {result.promotion}"
    return replace(seen, recalibrated=result.run, notes=(*seen.notes, said))


def _compared(
    new: ScoreTable, fitted: ScoreTable, calibrator: ScoreCalibrator
) -> tuple[Probabilities, NewTriples, DriftReference]:
    """Return probabilities of new rows, the rows with the calibrator's numbers of relations, and what it was fitted to.

    Raises InputError if the calibrator has a map for each relation, and the rows have no relations.
    """
    bound, relations = calibrator.bound, None
    if calibrator.by_relation:
        if not new.relations:
            raise InputError(f"the calibrator {bound.name} has a map for each relation: name their column: --relation")
        relations = renumbered(new.relations, calibrator.relations, new.triples[:, 1])
    at_fit = bound.base_rate if bound.fitted_at is None else bound.fitted_at
    sample = labelled_sample(replace(fitted, labelled_base_rate=BaseRate(at_fit)))
    limits = bound.rate.limits
    origin = DriftReference(sample, bound.base_rate, calibrator.by_relation, sample.scores, sample.weights, limits)
    q, _, _ = calibrator.calibrate(new.scores, relations)
    return q, NewTriples(new.scores, new.labels, relations), origin
