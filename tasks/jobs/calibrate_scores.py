"""Calibrates the scores of any scorer. No graph is needed."""

from dataclasses import replace
from pathlib import Path

from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.external.fit import usable
from kgcore.external.rows import read_scores
from tasks.jobs.calibrated_model import Ask, find_scores
from tasks.jobs.fitted_scores import ScoresRequest, ScoresResult, apply_scores, fit_and_measure, log_fit, result_of
from tasks.jobs.watch import WatchResult
from tasks.jobs.watch_scores import recalibrate_scores, watch_scores
from tasks.tracking.labels import APPLY_SCORES
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.progress import progress_bar


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
        return _apply_stored(store, request, config)
    usable(config)
    with progress_bar("read", 100) as move:
        file = read_scores(Path(request.file), config, lambda done: move(int(100 * done)))
    return log_fit(store, fit_and_measure(file, config, evaluation), request, config, evaluation)


def _apply_stored(store: Store, request: ScoresRequest, config: ScoresConfig) -> ScoresResult:
    """Give the rows of a file the probabilities of a stored calibrator."""
    found = find_scores(Ask(request.model, calibrator=request.calibrator, scorer=config.named))
    found = replace(found, calibrator=found.calibrator.at(config.base_rate))
    with store.open_run(f"apply scores of {config.named}", RunTags(stage=APPLY_SCORES, dataset=config.named)) as run_id:
        result = result_of(found, run_id)
        asked = {"score": config.score, "relation": config.relation, "apply": Path(request.apply).name}
        store.log_params(run_id, {**asked, "model": result.model, "base_rate": result.base_rate})
        return apply_scores(store, result, found, request, config)
