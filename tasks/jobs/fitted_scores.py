"""Fits calibrators to labelled scores, measures and logs them, and gives other rows their probabilities."""

import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from kgcore.config import EvaluateConfig, GateConfig, ScoresConfig
from kgcore.errors import InputError
from kgcore.evaluation.evaluate import Measured, evaluate
from kgcore.evaluation.groups import reliability_by_relation
from kgcore.evaluation.predictions import Predictions
from kgcore.external.calibrator import RELATION, SCORE, ScoreCalibrator
from kgcore.external.fit import fit_scores, folds_of, of_other_folds, of_test_rows, usable
from kgcore.external.rows import ScoreFile, stored_rows
from kgcore.external.tables import check_table
from kgcore.prediction.sink import check_ending, sink
from kgcore.report.plots import reliability_figures
from kgcore.report.result import Result, runs_text
from kgcore.report.results import Results
from kgcore.report.scores import RowCounts, ScoresSummary, scores_page
from kgcore.score_table import ScoreTable
from kgcore.storage.json_file import write_json, write_measured
from tasks.jobs.calibrated_model import FoundScores, Located, chosen
from tasks.jobs.promote import promote_scores
from tasks.jobs.request import MOST_EXAMPLES, AnsweredTable
from tasks.tracking.artifacts import REPORT, SCORE_ROWS, save
from tasks.tracking.labels import CALIBRATE_SCORES, labelled_metrics
from tasks.tracking.mlmodel import log_score_calibrator
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.store import Store
from tasks.workspace.progress import progress_bar
from tasks.workspace.settings import ensure_home

EXAMPLES = 3  # rows of the input example of a LoggedModel


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


@dataclass(frozen=True, kw_only=True)
class ScoresResult(AnsweredTable):
    """The result of `calibrate-scores`. Its data set is the scorer, and its rows are those of `--apply`.

    summary    how good the calibrators are; None if none was fitted
    report     path of the report; '' without a fit
    promotion  whether the calibrator became the champion, and why, in a sentence; '' if nobody asked
    """

    rows: int = 0
    expected: float | None = None
    interval: tuple[float, float] | None = None
    examples: tuple[dict[str, object], ...] = ()
    summary: ScoresSummary | None = None
    report: str = ""
    promotion: str = ""

    def result(self) -> Result:
        """Return the results of the calibrators, the counts of the answers, and the places."""
        tables, answers, summary = [], "", self.summary
        if summary is not None:
            tables = [summary.results.table(notes=[*summary.results.best_text(), *summary.notes])]
        if self.expected is not None:
            answers = f"{self.rows:,} rows, {self.expected:,.1f} expected to be true: {self.output}"
        return Result(
            title=f"Scores of {self.dataset}",
            tables=tables,
            sentences=[line for line in (answers, self.promotion, self.model_text) if line],
            files={"report": self.report},
            run=self.run,
            rows=() if tables else self.examples,
            facts=summary.to_json() if summary else {},
        )


def result_of(found: FoundScores, run_id: str) -> ScoresResult:
    """Return the result of a calibrator that answers, before it has answered."""
    bound = found.calibrator.bound
    return ScoresResult(
        dataset=found.calibrator.scorer,
        model=found.located.uri,
        calibrator=bound.label,
        base_rate=bound.base_rate,
        base_rate_text=str(bound.rate),
        output="",
        run=run_id,
    )


def apply_scores(
    store: Store, result: ScoresResult, found: FoundScores, request: ScoresRequest, config: ScoresConfig
) -> ScoresResult:
    """Write the rows of `request.apply` with the columns probability, low and high added. Return the result with them.

    Raises InputError for wrong values, with file and line. Then no output file is left behind.
    """
    rows, expected, examples = 0, 0.0, list[dict[str, object]]()
    answers = found.calibrator.answer_file(Path(request.apply), config.score, config.relation)
    with progress_bar("apply", 100) as move, sink(Path(request.output)) as write:
        for table, done in answers:
            write(table)
            rows += len(table)
            expected += float(np.sum(table["probability"].to_numpy()))
            examples += table.slice(0, max(0, MOST_EXAMPLES - len(examples))).to_pylist()
            move(int(100 * done), f"{rows:,} rows")
    store.log_metrics(result.run, {"rows": float(rows), "expected": expected}, model_id=found.located.model_id)
    return replace(result, rows=rows, expected=expected, examples=tuple(examples), output=request.output)


@dataclass(frozen=True)
class FittedScores:
    """What was fitted and measured, before it is logged.

    calibrators  the baselines, then the fitted calibrators
    predictions  probabilities of the measured rows
    measured     label -> metrics
    table        the rows
    """

    calibrators: list[ScoreCalibrator]
    predictions: Predictions
    measured: dict[str, Measured]
    summary: ScoresSummary
    table: ScoreTable

    @property
    def best(self) -> tuple[str, float]:
        """Return the label of the fitted calibrator with the best Brier score, and this score."""
        best = self.summary.results.best_fitted()
        assert best is not None
        return best.label, best.metrics["brier"]

    @property
    def example(self) -> pd.DataFrame:
        """Return a few rows that show how to ask a calibrator."""
        few = stored_rows(self.table, EXAMPLES)
        scores = expit(few.scores) if self.calibrators[0].scale == "probability" else few.scores
        names = {RELATION: [few.relations[number] for number in few.triples[:, 1]]} if few.relations else {}
        return pd.DataFrame({SCORE: scores, **names})


def fit_and_measure(file: ScoreFile, config: ScoresConfig, evaluation: EvaluateConfig) -> FittedScores:
    """Fit the calibrators to labelled scores, and measure them on test rows or by cross-fitting.

    Raises InputError as `usable` does, FitError if a fit does not converge.
    """
    table, folds = file.table, 0
    calibrators = fit_scores(table, config)
    if table.rows("test").any():
        predictions = of_test_rows(table, calibrators)
    else:
        _, folds = folds_of(table, config)
        with progress_bar("cross-fit", folds) as move:
            predictions = of_other_folds(table, config, move)
    with progress_bar("measure", evaluation.bootstrap_replicates) as move:
        measured = evaluate(predictions, evaluation, on_replicate=move)
    by_relation = reliability_by_relation(predictions) if table.relations else []
    counts = RowCounts(
        true=int(table.rows("valid", label=1).sum()),
        false=int(table.rows("valid", label=0).sum()),
        measured=len(predictions.labels),
        folds=folds,
        of_train=file.of_train,
        of_weight=file.of_weight,
    )
    summary = ScoresSummary(
        scorer=config.named,
        results=Results.of(measured),
        relations={table.relations[reliability.predicate]: reliability for reliability in by_relation},
        counts=counts,
        base_rate=calibrators[0].bound.base_rate,
        stated=table.labelled_base_rate is not None,
        unfitted=tuple(name for name in config.calibrators if name not in usable(config)),
    )
    return FittedScores(calibrators, predictions, measured, summary, table)


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
        settings = {CALIBRATE_SCORES: config.as_dict(), "evaluate": evaluation.as_dict()}
        report = _log_report(store, run_id, fitted, settings)
        found = FoundScores(Located(ids[label], f"models:/{ids[label]}"), labels[label])
        result = replace(result_of(found, run_id), summary=fitted.summary, report=report)
        if request.promote:
            decision = promote_scores(store, found, fitted.predictions, fits * len(usable(config)), GateConfig())
            result = replace(result, model=decision.challenger, promotion=decision.explanation)
            store.log_metrics(run_id, {"promoted": float(decision.passed)}, model_id=ids[label])
        return apply_scores(store, result, found, request, config) if request.apply else result


def _log_models(store: Store, run_id: str, fitted: FittedScores) -> dict[str, str]:
    """Log every calibrator as a LoggedModel with its metrics. Return label -> id of the LoggedModel."""
    ids = {}
    dataset = DatasetId(fitted.summary.scorer, fitted.table.dataset)
    store.log_dataset(run_id, dataset, dataset.name, asdict(fitted.summary.counts))
    for number, calibrator in enumerate(fitted.calibrators):
        label = calibrator.bound.label
        ids[label] = log_score_calibrator(store, run_id, number, calibrator, fitted.example)
        metrics = labelled_metrics(label, fitted.measured[label].with_ends())
        store.log_metrics(run_id, metrics, model_id=ids[label], dataset=dataset)
    return ids


def _log_report(store: Store, run_id: str, fitted: FittedScores, settings: dict[str, dict[str, object]]) -> str:
    """Log the summary, the measurements, the diagrams and the page, also to the home. Return the page's path."""
    figures, summary = reliability_figures(fitted.measured), fitted.summary
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "figures").mkdir()
        write_json(folder / "summary.json", summary.to_json())
        write_measured(folder / "measured.json", fitted.measured)
        save(folder, SCORE_ROWS, stored_rows(fitted.table))
        page = scores_page(summary, figures, settings, {CALIBRATE_SCORES: run_id})
        (folder / REPORT.path).write_text(page, encoding="utf-8")
        for title, figure in figures.items():
            figure.savefig(folder / "figures" / f"{title}.png", dpi=150)
        store.log_files(run_id, folder)
        place = ensure_home() / "reports" / run_id
        shutil.copytree(folder, place, dirs_exist_ok=True)
    note = summary.results.table(notes=[*summary.notes, runs_text({CALIBRATE_SCORES: run_id})])
    store.log_tags(run_id, RunTags(note=note.markdown()))
    return str(place / REPORT.path)
