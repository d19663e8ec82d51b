"""Centred isotonic regression: isotonic regression that keeps different scores apart instead of making ties."""

from typing import Self

import numpy as np

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.pav import block_starts, positive_share, score_runs
from kgcore.calibration.stream import SampleStream
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("centred_isotonic")
class CentredIsotonic(Isotonic):
    """A curve through the centres of the blocks of isotonic regression, joined by straight lines.

    The centre of a block is the point of its weighted mean score f and its level q. The curve is strictly increasing
    between the first and the last centre. Oron & Flournoy, "Centered Isotonic Regression", Statistics in
    Biopharmaceutical Research 2017.

    In the paper the curve is constant outside the centres, so a third of all triples or more would have tied
    probabilities. Here the curve continues beyond the first and the last centre with the slope s of the nearest line,
    and approaches 0 or 1 without reaching it:

        q = q1 exp(s (f - f1) / q1) below the first centre (f1, q1),
        1 - q = (1 - qm) exp(-s (f - fm) / (1 - qm)) above the last (fm, qm).

    Ties remain in three cases: below the first centre if q1 = 0, above the last centre if qm = 1, and everywhere if all
    scores are in one block. In the last case q is the base rate.

    scores_         (m,) increasing: the weighted mean score of each block
    probabilities_  (m,) increasing, in [0, 1]: the level of each block
    """

    def fit_stream(self, stream: SampleStream) -> Self:
        runs = score_runs(stream)
        starts = block_starts(runs.means, runs.weights.sum(axis=1))
        positives, weights = runs.pooled(starts)
        centres = np.add.reduceat(runs.sums.sum(axis=1), starts) / weights
        lasts = np.r_[starts[1:], len(runs.first)] - 1
        # rounding must not move a centre out of its block
        centres = np.clip(centres, runs.first[starts], runs.last[lasts])
        return self.set_fitted(scores=centres, probabilities=positive_share(positives, weights))

    def calibrate(self, scores: Scores) -> Probabilities:
        f, centres, levels = np.asarray(scores, dtype=np.float64), self.scores_, self.probabilities_
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
