"""Centred isotonic regression: isotonic regression that keeps the ranking."""

from typing import Self

import numpy as np

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.pav import block_starts, group_by_score, positive_share
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("centred_isotonic")
class CentredIsotonic(Isotonic):
    """Each block of isotonic regression becomes one point at its weighted mean score, joined by straight lines.

    Oron & Flournoy, "Centered Isotonic Regression", Statistics in Biopharmaceutical Research 2017. The curve is
    strictly increasing between the first and the last centre.

    Outside the centres the curve of the paper is constant, and a third of all triples or more would have tied
    probabilities. Here the curve keeps its slope s at the centre, and approaches 0 and 1 without reaching them:

        q = q1 exp(s (f - f1) / q1) below the first centre (f1, q1),
        1 - q = (1 - qm) exp(-s (f - fm) / (1 - qm)) above the last (fm, qm).

    Ties remain below a first centre with q1 = 0, above a last centre with qm = 1, and when all scores are one block:
    then q is the base rate everywhere.

    scores         (m,) increasing: the centres of the blocks
    probabilities  (m,) increasing, in [0, 1]: the levels of the blocks
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        groups = group_by_score(sample.scores, sample.labels, sample.weights)
        starts = block_starts(groups.means, groups.weights)
        weights = np.add.reduceat(groups.weights, starts)
        centres = np.add.reduceat(groups.weights * groups.scores, starts) / weights
        lasts = np.r_[starts[1:], len(groups.scores)] - 1
        centres = np.clip(centres, groups.scores[starts], groups.scores[lasts])  # rounding: stay inside the block
        return cls(centres.tolist(), positive_share(np.add.reduceat(groups.positives, starts), weights).tolist())

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
