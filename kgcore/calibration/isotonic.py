"""Isotonic regression: the best non-decreasing curve, without an assumption about its shape."""

from typing import ClassVar, Self

import numpy as np

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.pav import block_starts, group_by_score, positive_share
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("isotonic")
class Isotonic(Calibrator):
    """The curve q that minimises sum_i w_i (q(f_i) - y_i)^2 over all non-decreasing q.

    Zadrozny & Elkan, KDD 2002; paper, section 4. The fit groups equal scores and then runs pool adjacent violators on
    the distinct scores. The curve is flat on each block of scores, linear between neighbouring blocks, and constant
    below the first and above the last score of the sample.

    scores_         (m,) increasing: the first and the last score of each block
    probabilities_  (m,) non-decreasing, in [0, 1]: the level at each of these scores
    """

    fitted: ClassVar[tuple[str, ...]] = ("scores", "probabilities")
    scores_: Scores
    probabilities_: Probabilities

    def fit_sample(self, sample: CalibrationSample) -> Self:
        groups = group_by_score(sample.scores, sample.labels, sample.weights)
        starts = block_starts(groups.means, groups.weights)
        levels = positive_share(np.add.reduceat(groups.positives, starts), np.add.reduceat(groups.weights, starts))
        return self.set_blocks(groups.scores, starts, levels)

    def set_blocks(self, scores: Scores, starts: Ints, levels: Probabilities) -> Self:
        """Set the curve that is flat on each of b blocks of scores.

        scores  (m,) the distinct scores, increasing
        starts  (b,) index of the first score of each block; the first is 0
        levels  (b,) the probability on each block
        """
        lasts = np.r_[starts[1:], len(scores)] - 1
        ends, place = np.unique(np.r_[starts, lasts], return_index=True)
        return self.set_fitted(scores=scores[ends], probabilities=np.tile(levels, 2)[place])

    def calibrate(self, scores: Scores) -> Probabilities:
        q: Probabilities = np.interp(scores, self.scores_, self.probabilities_)
        return q
