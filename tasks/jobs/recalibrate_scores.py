"""Calibrates a scorer again, if a check on newly labelled rows has found drift."""

from dataclasses import replace
from pathlib import Path

from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.external.again import fits_after, halves
from kgcore.external.fit import usable
from kgcore.external.read import read_new_rows
from kgcore.monitoring.drift import find_evidence
from tasks.jobs.fitted_scores import FittedScores, fit_and_measure
from tasks.jobs.log_scores import log_fit
from tasks.jobs.score_model import find_score_model
from tasks.jobs.scores_request import ScoresRequest
from tasks.jobs.watch import FEWEST_OF_A_LABEL, WatchResult, readable
from tasks.jobs.watch_scores import as_asked, origin_of
from tasks.tracking.artifacts import SCORE_ROWS
from tasks.tracking.record import RunTags
from tasks.tracking.registry import run_of_model
from tasks.tracking.store import Store


def recalibrate_scores(
    store: Store, seen: WatchResult, request: ScoresRequest, config: ScoresConfig, evaluation: EvaluateConfig
) -> WatchResult:
    """Fit calibrators again if a check asks for it. The best becomes the champion if it passes the gate.

    Half of the new rows, drawn at random, is for the fit and for the new base rate. The other half measures the
    calibrators and the champion, so no calibrator is measured on rows that it was fitted to. If the map has moved, two
    fits are compared: see `fits_after`.

    Returns the check, with the run of the new calibrators and the decision of the gate among its notes; the check as it
    was, if it asks for nothing that a fit can do.

    Raises InputError if only the old or only the new rows have relations.
    """
    if seen.answer not in ("shift", "refit"):
        return seen
    found = find_score_model(store, seen.model, config.named, "")
    old = store.load(run_of_model(store, f"models:/{found.model_id}"), SCORE_ROWS)
    half, measured = halves(read_new_rows(Path(request.file), config), config.fold_seed)
    asked, origin = as_asked(half, found.calibrator), origin_of(old, found.calibrator)
    probabilities, _, _ = found.calibrator.predict(asked.scores, asked.predicates)
    moved = find_evidence(probabilities, asked, origin).moved_base_rate.value
    rate = readable(moved if seen.answer == "shift" else half.base_rate(None))
    fits = fits_after(seen.answer, old, half, measured, rate, FEWEST_OF_A_LABEL)
    made = [fit_and_measure(again.file, replace(config, base_rate=again.base_rate), evaluation) for again in fits]
    again, fitted = min(zip(fits, made, strict=True), key=lambda pair: _lowest(pair[1]))
    asks = replace(request, watch=False, recalibrate=False, promote=True, calibrator="")
    result = log_fit(
        store, fitted, asks, replace(config, base_rate=again.base_rate), evaluation, len(fits) * len(usable(config))
    )
    store.log_tags(seen.run, RunTags(recalibrated=result.run))
    said = f"calibrators were fitted to {again.what}: {result.promotion}"
    return replace(seen, recalibrated=result.run, notes=(*seen.notes, said))


def _lowest(fitted: FittedScores) -> float:
    """Return the Brier score of the best calibrator."""
    best = fitted.summary.results.best_fitted()
    assert best is not None
    return best.metrics["brier"]
