"""Histogram binning: the share of positives among the triples with about that score."""

from typing import Self

import numpy as np

from kgcore.calibration.pav import block_starts, pool, share
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.steps import Steps, equal_mass
from kgcore.registries import CALIBRATORS

BINS = 10  # Zadrozny & Elkan 2001


@CALIBRATORS.register("histogram")
class Histogram(Steps):
    """q is the weighted share of positives in the score's bin, of ten bins of equal weight.

    Zadrozny & Elkan, ICML 2001. Their bins need not rise with the score, but a calibrator must: neighbouring bins that
    fall are pooled (pool-adjacent-violators on the bins), so that there may be fewer than ten, each still with the
    share of its own. Equal scores are never split between bins. A bin of one label only is 0 or 1: its log loss can be
    infinite.
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        pooled = pool(sample.scores, sample.labels, sample.weights)
        starts = equal_mass(pooled.weights, BINS)
        positives, weights = np.add.reduceat(pooled.positives, starts), np.add.reduceat(pooled.weights, starts)
        rising = block_starts(share(positives, weights), weights)
        levels = share(np.add.reduceat(positives, rising), np.add.reduceat(weights, rising))
        lengths = np.diff(np.r_[starts[rising], len(pooled.scores)])
        return cls.through(pooled.scores, np.repeat(levels, lengths))
