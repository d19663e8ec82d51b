"""Isotonic regression: the best non-decreasing curve, with no shape assumed."""

from typing import Any, Self

import numpy as np

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.pav import block_starts, pool, share
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


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
        pooled = pool(sample.scores, sample.labels, sample.weights)
        starts = block_starts(pooled.means, pooled.weights)
        levels = share(np.add.reduceat(pooled.positives, starts), np.add.reduceat(pooled.weights, starts))
        return cls.of_blocks(pooled.scores, starts, levels)

    @classmethod
    def of_blocks(cls, scores: Scores, starts: Ints, levels: Probabilities) -> Self:
        """The curve with these levels (b,) on the blocks of scores (m,) that start at `starts` (b,)."""
        lasts = np.r_[starts[1:], len(scores)] - 1
        ends, place = np.unique(np.r_[starts, lasts], return_index=True)
        return cls(scores[ends].tolist(), np.tile(levels, 2)[place].tolist())

    def predict(self, scores: Scores) -> Probabilities:
        q: Probabilities = np.interp(scores, self.scores, self.probabilities)
        return q

    def parameters(self) -> dict[str, Any]:
        return {"scores": self.scores.tolist(), "probabilities": self.probabilities.tolist()}
