"""Logs fitted calibrators of scores: models, metrics, diagrams and the report. Promotes and applies the best."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from kgcore.config import EvaluateConfig, GateConfig, ScoresConfig
from kgcore.report.markdown import markdown
from kgcore.report.plots import reliability_figures
from kgcore.report.scores import scores_page
from kgcore.storage import write_json, write_measured
from tasks.jobs.apply_scores import apply_scores
from tasks.jobs.fitted_scores import FittedScores
from tasks.jobs.promote_scores import promote_scores
from tasks.jobs.score_model import FoundScoreModel, chosen
from tasks.jobs.scores_request import ScoresRequest
from tasks.jobs.scores_result import ScoresResult
from tasks.tracking.artifacts import REPORT, SCORE_ROWS
from tasks.tracking.handles import save
from tasks.tracking.labels import CALIBRATE_SCORES, labelled_metrics
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.score_models import log_score_calibrator
from tasks.tracking.store import Store
from tasks.workspace.settings import ensure_home


def log_fit(
    store: Store,
    fitted: FittedScores,
    request: ScoresRequest,
    config: ScoresConfig,
    evaluation: EvaluateConfig,
    candidates: int,
) -> ScoresResult:
    """Log the calibrators as a run. Promote the best one, and apply it to a file, if the request asks for it.

    candidates  number of calibrators among which it is the best
    """
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
            model = FoundScoreModel(ids[label], uri, best)
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
