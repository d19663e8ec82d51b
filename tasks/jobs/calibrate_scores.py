"""Calibrates the scores of any scorer: fits, measures, logs, and applies. No graph is needed."""

from dataclasses import replace
from pathlib import Path

from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.external.fit import usable
from tasks.jobs.apply_scores import apply_scores
from tasks.jobs.fitted_scores import fit_and_measure, read_labelled
from tasks.jobs.log_scores import log_fit
from tasks.jobs.recalibrate_scores import recalibrate_scores
from tasks.jobs.score_model import find_score_model
from tasks.jobs.scores_request import ScoresRequest
from tasks.jobs.scores_result import ScoresResult
from tasks.jobs.watch import WatchResult
from tasks.jobs.watch_scores import watch_scores
from tasks.tracking.labels import APPLY_SCORES
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store


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
        seen = watch_scores(store, Path(request.file), request.model, request.calibrator, config)
        return recalibrate_scores(store, seen, request, config, evaluation) if request.recalibrate else seen
    if not request.file:
        return _apply_stored(store, request, config)
    fitted = fit_and_measure(read_labelled(Path(request.file), config), config, evaluation)
    return log_fit(store, fitted, request, config, evaluation, len(usable(config)))


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
