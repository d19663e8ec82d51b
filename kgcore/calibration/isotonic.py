"""Isotonic regression: the best non-decreasing curve, without an assumption about its shape."""

from typing import ClassVar, Self

import numpy as np

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.pav import ScoreRuns, block_starts, positive_share, score_runs
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("isotonic")
class Isotonic(Calibrator):
    """The curve q that minimises sum_i w_i (q(f_i) - y_i)^2 over all non-decreasing q.

    Zadrozny & Elkan, KDD 2002; paper, section 4. The fit divides the scores into runs (`ScoreRuns`) and then pools
    adjacent violators among the runs.

    The curve is flat on each block of scores, linear between neighbouring blocks, and constant below the first and
    above the last score of the sample.

    scores_         (m,) increasing: the first and the last score of each block
    probabilities_  (m,) non-decreasing, in [0, 1]: the level at each of these scores
    """

    fitted: ClassVar[tuple[str, ...]] = ("scores", "probabilities")
    scores_: Scores
    probabilities_: Probabilities

    def fit_sample(self, sample: CalibrationSample) -> Self:
        runs = score_runs(sample.scores, sample.labels, sample.weights)
        starts = block_starts(runs.means, runs.totals)
        return self.set_blocks(runs, starts, positive_share(*runs.pooled(starts)))

    def set_blocks(self, runs: ScoreRuns, starts: Ints, levels: Probabilities) -> Self:
        """Set the curve that is flat on each of b blocks of runs.

        starts  (b,) index of the first run of each block; the first is 0
        levels  (b,) the probability on each block
        """
        ends = np.stack([runs.first[starts], runs.last[np.r_[starts[1:], len(runs.first)] - 1]], axis=1).ravel()
        scores, place = np.unique(ends, return_index=True)
        return self.set_fitted(scores=scores, probabilities=np.repeat(levels, 2)[place])

    def calibrate(self, scores: Scores) -> Probabilities:
        q: Probabilities = np.interp(scores, self.scores_, self.probabilities_)
        return q
