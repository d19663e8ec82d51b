"""Centred isotonic regression: isotonic regression that keeps the ranking."""

from typing import Self

import numpy as np

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.pav import block_starts, pool, share
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("centred_isotonic")
class CentredIsotonic(Isotonic):
    """Each block of isotonic regression becomes one point at its weighted mean score, and the curve is linear from
    point to point: strictly increasing between the outermost centres.

    Oron & Flournoy, "Centered Isotonic Regression", Statistics in Biopharmaceutical Research 2017.

    Outside the outermost centres the paper's curve is constant, which would tie a third of all triples and more. Here
    it goes on with the slope s that it has there, and bends towards 0 and 1 without reaching them:

        q = q1 exp(s (f - f1) / q1) below the first centre (f1, q1),
        1 - q = (1 - qm) exp(-s (f - fm) / (1 - qm)) above the last (fm, qm).

    Ties remain where a level is 0 below the first centre or 1 above the last, which nothing can go beyond, and where
    all scores are one block: then q is the base rate everywhere.

    scores (m,) increasing, probabilities (m,) increasing: the centres.
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        pooled = pool(sample.scores, sample.labels, sample.weights)
        starts = block_starts(pooled.means, pooled.weights)
        weights = np.add.reduceat(pooled.weights, starts)
        centres = np.add.reduceat(pooled.weights * pooled.scores, starts) / weights
        lasts = np.r_[starts[1:], len(pooled.scores)] - 1
        centres = np.clip(centres, pooled.scores[starts], pooled.scores[lasts])  # rounding leaves no block
        return cls(centres.tolist(), share(np.add.reduceat(pooled.positives, starts), weights).tolist())

    def predict(self, scores: Scores) -> Probabilities:
        f, centres, levels = np.asarray(scores, dtype=np.float64), self.scores, self.probabilities
        q: Probabilities = np.interp(f, centres, levels)
        if len(centres) == 1:
            return q
        slopes = np.diff(levels) / np.diff(centres)
        below, above = f < centres[0], f > centres[-1]
        if levels[0] > 0:
            q[below] = levels[0] * np.exp(slopes[0] / levels[0] * (f[below] - centres[0]))
        if levels[-1] < 1:
            left = 1 - levels[-1]
            q[above] = 1 - left * np.exp(-slopes[-1] / left * (f[above] - centres[-1]))
        return q
