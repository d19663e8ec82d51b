"""Histogram binning: the share of positives among triples with similar scores."""

from typing import Self

import numpy as np

from kgcore.calibration.pav import block_starts, group_by_score, positive_share
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.steps import Steps, equal_mass
from kgcore.registries import CALIBRATORS

BINS = 10  # Zadrozny & Elkan 2001


@CALIBRATORS.register("histogram")
class Histogram(Steps):
    """The weighted share q of positives in the bin of the score, for ten bins of equal weight.

    Zadrozny & Elkan, ICML 2001. In the paper, the share can fall from one bin to the next. A calibrator must be
    non-decreasing, so here such neighbouring bins are merged (pool adjacent violators on the bins). Fewer than ten bins
    may remain, and each has the share of positives among its own rows. Equal scores are always in the same bin. A bin
    whose rows all have the same label has the probability 0 or 1, so the log loss can be infinite.
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        groups = group_by_score(sample.scores, sample.labels, sample.weights)
        starts = equal_mass(groups.weights, BINS)
        positives, weights = np.add.reduceat(groups.positives, starts), np.add.reduceat(groups.weights, starts)
        merged = block_starts(positive_share(positives, weights), weights)
        levels = positive_share(np.add.reduceat(positives, merged), np.add.reduceat(weights, merged))
        lengths = np.diff(np.r_[starts[merged], len(groups.scores)])
        return cls.through(groups.scores, np.repeat(levels, lengths))
