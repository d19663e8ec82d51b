"""Calibrates the scores of any scorer: fits, measures, logs, and applies. No graph is needed."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kgcore.config import EvaluateConfig, GateConfig, ScoresConfig
from kgcore.errors import InputError
from kgcore.external.fit import usable
from kgcore.external.tables import check_table
from kgcore.report.markdown import markdown
from kgcore.report.plots import reliability_figures
from kgcore.report.scores import scores_page
from kgcore.storage import write_json, write_measured
from tasks.jobs.apply_scores import apply_scores, check_places
from tasks.jobs.fitted_scores import FittedScores, fit_and_measure
from tasks.jobs.promote_scores import promote_scores
from tasks.jobs.score_model import FoundScoreModel, chosen, find_score_model
from tasks.jobs.scores_result import ScoresResult
from tasks.jobs.watch import WatchResult
from tasks.jobs.watch_scores import watch_scores
from tasks.tracking.artifacts import REPORT, SCORE_ROWS
from tasks.tracking.handles import save
from tasks.tracking.labels import APPLY_SCORES, CALIBRATE_SCORES, labelled_metrics
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.score_models import log_score_calibrator
from tasks.tracking.store import Store, open_store
from tasks.workspace.settings import ensure_home


@dataclass(frozen=True)
class ScoresRequest:
    """What to do with which files.

    file        file of labelled scores; '': none, a stored calibrator answers
    apply       file of scores without labels; '': none
    output      file for their probabilities
    model       stored calibrator to use, if no labelled scores are given: see `find_score_model`
    watch       whether a stored calibrator is checked on the labelled scores, and none is fitted
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

    def check(self) -> None:
        """Raise InputError for files that cannot be used, and for options that do not fit together."""
        check_places(self.apply, self.output)
        if self.watch and (not self.file or self.apply or self.promote):
            raise InputError("--watch needs a file of newly labelled scores, and neither --apply nor --promote")
        if self.file and self.model and not self.watch:
            raise InputError(f"{self.file} and --model {self.model} are given: give one of them")
        if self.file:
            check_table(Path(self.file))
        elif self.promote:
            raise InputError("--promote needs a file of labelled scores: a calibrator is promoted when it is fitted")
        elif not (self.model and self.apply):
            raise InputError("give a file of labelled scores, or --model with --apply: there is nothing to do")


def calibrate_scores(
    request: ScoresRequest, config: ScoresConfig, evaluation: EvaluateConfig
) -> ScoresResult | WatchResult:
    """Fit calibrators to labelled scores, measure and log them, and give other rows their probabilities.

    With `watch`, a stored calibrator is checked instead. Without labelled scores, a stored calibrator gives the
    probabilities; a base rate in `config` shifts it.

    Raises InputError for wrong files, with file and line, FitError if a fit does not converge, and MismatchError if a
    stored calibrator belongs to another scorer.
    """
    request.check()
    store = open_store()
    if request.watch:
        return watch_scores(store, Path(request.file), request.model, request.calibrator, config)
    if not request.file:
        return _apply_stored(store, request, config)
    fitted = fit_and_measure(Path(request.file), config, evaluation)
    label = _best(fitted, request.calibrator)
    with store.open_run(f"scores of {config.named}", RunTags(stage=CALIBRATE_SCORES, dataset=config.named)) as run_id:
        params = {**asdict(config), **asdict(evaluation), "base_rate": fitted.summary.base_rate}
        store.log_params(run_id, {**params, "file": Path(request.file).name, "best": label})
        ids = _log(store, run_id, fitted)
        report = _log_report(
            store, run_id, fitted, {"calibrate-scores": asdict(config), "evaluate": asdict(evaluation)}
        )
        [best] = (one for one in fitted.calibrators if one.bound.label == label)
        uri, said, applied = f"models:/{ids[label]}", "", None
        if request.promote:
            candidates, model = len(usable(config)), FoundScoreModel(ids[label], uri, best)
            promotion = promote_scores(store, model, fitted.predictions, candidates, GateConfig())
            uri, said = promotion.uri, promotion.sentence
            store.log_metrics(run_id, {"promoted": float(promotion.passed)}, model_id=ids[label])
        if request.apply:
            applied = apply_scores(Path(request.apply), Path(request.output), best, config)
            store.log_metrics(run_id, {"rows": float(applied.rows), "expected": applied.expected}, model_id=ids[label])
    return ScoresResult(
        scorer=config.named,
        model=uri,
        label=label,
        base_rate=fitted.summary.base_rate,
        base_rate_text=best.bound.base_rate_text,
        summary=fitted.summary,
        applied=applied,
        report=report,
        promotion=said,
        run=run_id,
    )


def _best(fitted: FittedScores, name: str) -> str:
    """Return the label of the calibrator that answers: the named one, or the one with the best Brier score."""
    if name:
        return chosen(name, [one.bound.label for one in fitted.calibrators])
    best = fitted.summary.results.best_fitted()
    assert best is not None
    return best.label


def _log(store: Store, run_id: str, fitted: FittedScores) -> dict[str, str]:
    """Log every calibrator as a LoggedModel with its metrics. Return label -> id of the LoggedModel."""
    ids = {}
    dataset = DatasetId(fitted.summary.scorer, fitted.calibrators[0].bound.dataset)
    store.log_dataset(run_id, dataset, dataset.name, asdict(fitted.summary.counts))
    for number, one in enumerate(fitted.calibrators):
        label = one.bound.label
        ids[label] = log_score_calibrator(store, run_id, number, one, fitted.example)
        metrics = labelled_metrics(label, fitted.measured[label].with_ends())
        store.log_metrics(run_id, metrics, model_id=ids[label], dataset=dataset)
    return ids


def _log_report(store: Store, run_id: str, fitted: FittedScores, settings: Mapping[str, Mapping[str, object]]) -> str:
    """Log the summary, the measurements, the diagrams and the page, also to the home. Return the page's path."""
    figures, summary = reliability_figures(fitted.measured), fitted.summary
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "figures").mkdir()
        write_json(folder / "summary.json", summary.to_json())
        write_measured(folder / "measured.json", fitted.measured)
        save(folder, SCORE_ROWS, fitted.rows)
        page = scores_page(summary, figures, settings, {CALIBRATE_SCORES: run_id})
        (folder / REPORT.path).write_text(page, encoding="utf-8")
        for title, figure in figures.items():
            figure.savefig(folder / "figures" / f"{title}.png", dpi=150)
        store.log_files(run_id, folder)
        place = ensure_home() / "reports" / run_id
        shutil.copytree(folder, place, dirs_exist_ok=True)
    note = "\n\n".join([*summary.notes, markdown(summary.results, {CALIBRATE_SCORES: run_id})])
    store.log_tags(run_id, RunTags(note=note))
    return str(place / REPORT.path)


def _apply_stored(store: Store, request: ScoresRequest, config: ScoresConfig) -> ScoresResult:
    """Give the rows of a file the probabilities of a stored calibrator."""
    found = find_score_model(store, request.model, config.named, request.calibrator)
    calibrator = found.calibrator
    if config.base_rate is not None:
        calibrator = calibrator.at(config.base_rate)
    config = replace(config, scale=calibrator.scale)
    with store.open_run(f"apply scores of {config.named}", RunTags(stage=APPLY_SCORES, dataset=config.named)) as run_id:
        asked = {"score": config.score, "relation": config.relation, "apply": Path(request.apply).name}
        store.log_params(run_id, {**asked, "model": found.uri, "base_rate": calibrator.bound.base_rate})
        applied = apply_scores(Path(request.apply), Path(request.output), calibrator, config)
        counted = {"rows": float(applied.rows), "expected": applied.expected}
        store.log_metrics(run_id, counted, model_id=found.model_id)
    return ScoresResult(
        scorer=config.named,
        model=found.uri,
        label=calibrator.bound.label,
        base_rate=calibrator.bound.base_rate,
        base_rate_text=calibrator.bound.base_rate_text,
        summary=None,
        applied=applied,
        run=run_id,
    )
