"""Isotonic regression that never gives a probability of 0 or 1."""

from typing import Self

import numpy as np

from kgcore.calibration.balance import shift
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.pav import block_starts, positive_share, score_runs
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("smoothed_isotonic")
class SmoothedIsotonic(Isotonic):
    """Isotonic regression with one prior row in each block, so no probability is 0 or 1 and the log loss stays finite:

        q = (m + r) / (n + 1) for a block of n rows with m positives, r the share of positives in the sample.

    `shift` then moves q to the base rate of the sample. If rows have weights, n, m and r are effective counts (see
    `effective_weights`). If the prior rows make q fall from one block to the next, these blocks are merged, together
    with their prior rows. Between and outside the blocks, the curve is that of `Isotonic`.

    The prior is the m-estimate of Cestnik, ECAI 1990, with m = 1. The order of weighting and shifting does not matter
    for synthetic weights: one prior row of mean weight in each block, whose label is the weighted base rate, would give
    the same result. A weighted row is still one observation: a row of weight 2 counts double compared with the other
    rows of its block, but not compared with the prior.
    """

    def fit_sample(self, sample: CalibrationSample) -> Self:
        runs = score_runs(sample.scores, sample.labels, sample.effective_weights)
        rate = float(runs.weights[:, 1].sum() / runs.weights.sum())
        starts = block_starts(runs.means, runs.totals)
        positives, rows = runs.pooled(starts)
        positives, rows = positives + rate, rows + 1
        merged = block_starts(positive_share(positives, rows), rows)
        levels = positive_share(np.add.reduceat(positives, merged), np.add.reduceat(rows, merged))
        return self.set_blocks(runs, starts[merged], shift(levels, rate, sample.base_rate))
