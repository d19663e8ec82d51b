"""The calibration curve of a predicate: probability and interval over the score."""

from dataclasses import dataclass

import numpy as np

from kgcore.calibration.calibrated import Calibrated
from kgcore.calibration.sample import CalibrationSample
from kgcore.prediction.evidence import central_range

POINTS = 201  # scores at equal distances


@dataclass(frozen=True)
class CalibrationCurve:
    """What a calibrator makes of a range of scores, for one predicate.

    scores         ascending; the score of the explained triple is one of them
    probabilities  their probabilities, in [0, 1]
    low, high      the 95 % confidence intervals of the probabilities; empty if the calibrator has none
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def curve_of(
    calibrator: Calibrated, sample: CalibrationSample | None, predicate: int, score: float
) -> CalibrationCurve | None:
    """Return the curve of a predicate around the score of a triple.

    The range holds 98 % of the true and 98 % of the false calibration triples of the predicate, or of all predicates
    if it has none, and the score. None if neither the sample nor the calibrator tells a range of scores.
    """
    found = _range(calibrator, sample, predicate)
    if found is None:
        return None
    grid = np.unique(np.r_[np.linspace(min(found[0], score), max(found[1], score), POINTS), score])
    predicates = np.full(len(grid), predicate)
    q = calibrator.predict(grid, calibrator.model, predicates)
    if calibrator.support is None:
        return CalibrationCurve(tuple(grid.tolist()), tuple(q.tolist()), (), ())
    low, high = calibrator.interval(grid, q, predicates)
    return CalibrationCurve(*(tuple(column.tolist()) for column in (grid, q, low, high)))


def _range(calibrator: Calibrated, sample: CalibrationSample | None, predicate: int) -> tuple[float, float] | None:
    """Return the lowest and the highest score that the curve must show; None if they are not known."""
    if sample is None:
        if calibrator.support is None:
            return None
        points = calibrator.support.band.scores
        return float(points[0]), float(points[-1])
    scores, labels = sample.scores, sample.labels
    if sample.predicates is not None and (own := sample.predicates == predicate).any():
        scores, labels = scores[own], labels[own]
    return central_range(scores[labels == 1], scores[labels == 0])
