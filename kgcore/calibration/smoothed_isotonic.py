"""Isotonic regression without probabilities of 0 and 1."""

from typing import Self

import numpy as np

from kgcore.calibration.effective import effective_weights
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.pav import block_starts, group_by_score, positive_share
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import shift
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("smoothed_isotonic")
class SmoothedIsotonic(Isotonic):
    """Isotonic regression with one prior row in each block, so no probability is 0 or 1 and the log loss stays finite:

        q = (m + r) / (n + 1) for a block of n rows with m positives, r the share of positives in the sample.

    `shift` then moves q to the base rate of the sample. With weights, n, m and r are from effective counts. If the
    prior rows make q fall from one block to the next, these blocks are merged, together with their prior rows. The
    curve between and outside the blocks is that of `Isotonic`.

    The prior is the m-estimate of Cestnik, ECAI 1990, with m = 1. Synthetic weights and the shift commute: a prior row
    of mean weight at the weighted base rate in each block gives the same result. A weighted row is one observation:
    weight 2 counts double against the other rows of a block, but not against the prior.
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        effective = effective_weights(sample)
        rate = float(np.average(sample.labels, weights=effective))
        groups = group_by_score(sample.scores, sample.labels, effective)
        starts = block_starts(groups.means, groups.weights)
        positives, rows = np.add.reduceat(groups.positives, starts) + rate, np.add.reduceat(groups.weights, starts) + 1
        merged = block_starts(positive_share(positives, rows), rows)
        levels = positive_share(np.add.reduceat(positives, merged), np.add.reduceat(rows, merged))
        return cls.of_blocks(groups.scores, starts[merged], shift(levels, rate, sample.base_rate))
