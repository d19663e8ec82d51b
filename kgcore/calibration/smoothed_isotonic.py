"""Isotonic regression that is never certain."""

from typing import Self

import numpy as np

from kgcore.calibration.effective import effective_weights
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.pav import block_starts, pool, share
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import shift
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("smoothed_isotonic")
class SmoothedIsotonic(Isotonic):
    """Isotonic regression whose every block has seen one row more, drawn at the base rate: no probability is 0 or 1,
    and the log loss stays finite.

        q = (m + r) / (n + 1) for a block of n rows with m positives, r the share of positives in the sample,

    then told about the sample's base rate by `shift`. With weights, n and m are effective counts. Neighbouring blocks
    that the prior row puts out of order are pooled with their prior rows, and curve and ends are as in `Isotonic`.

    The prior is the m-estimate of Cestnik, ECAI 1990, with m = 1. Synthetic weights and the shift commute: it is the
    same to give each block a prior row of mean weight at the weighted base rate. A weighted row is still one
    observation: weight 2 is not two rows, as to the blocks it is, but not as to the prior.
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        effective = effective_weights(sample)
        rate = float(np.average(sample.labels, weights=effective))
        pooled = pool(sample.scores, sample.labels, effective)
        starts = block_starts(pooled.means, pooled.weights)
        positives, rows = np.add.reduceat(pooled.positives, starts) + rate, np.add.reduceat(pooled.weights, starts) + 1
        ordered = block_starts(share(positives, rows), rows)
        levels = share(np.add.reduceat(positives, ordered), np.add.reduceat(rows, ordered))
        return cls.of_blocks(pooled.scores, starts[ordered], shift(levels, rate, sample.base_rate))
