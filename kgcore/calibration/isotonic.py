"""Isotonic regression: the best non-decreasing curve, with no shape assumed."""

from typing import Any, Self

import numpy as np
from sklearn.isotonic import isotonic_regression

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration import CALIBRATORS
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample


@CALIBRATORS.register("isotonic")
class Isotonic(Calibrator):
    """q minimises sum_i w_i (q(f_i) - y_i)^2 over non-decreasing q: pool-adjacent-violators on distinct scores.

    Zadrozny & Elkan, KDD 2002; paper, section 4. Equal scores are pooled before the fit. Between the ends of two
    neighbouring blocks the curve is linear, outside the fitted range it is clipped to the outermost blocks.

    scores (m,) increasing, probabilities (m,) non-decreasing: the ends of the blocks.
    """

    def __init__(self, scores: list[float], probabilities: list[float]) -> None:
        self.scores = np.asarray(scores, dtype=np.float64)
        self.probabilities = np.asarray(probabilities, dtype=np.float64)

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        distinct, place = np.unique(sample.scores, return_inverse=True)
        weights = np.bincount(place, weights=sample.weights)
        means = np.bincount(place, weights=sample.weights * sample.labels) / weights
        fitted = isotonic_regression(means, sample_weight=weights, y_min=0.0, y_max=1.0)
        inner = np.r_[False, (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:]), False]
        ends = ~inner[: len(fitted)]
        return cls(distinct[ends].tolist(), fitted[ends].tolist())

    def predict(self, scores: Scores) -> Probabilities:
        q: Probabilities = np.interp(scores, self.scores, self.probabilities)
        return q

    def parameters(self) -> dict[str, Any]:
        return {"scores": self.scores.tolist(), "probabilities": self.probabilities.tolist()}
