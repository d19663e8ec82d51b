"""Histogram binning: the share of positives among triples with similar scores."""

from typing import Self

import numpy as np

from kgcore.calibration.pav import block_starts, group_by_score, positive_share
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.steps import Steps, equal_mass
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("histogram")
class Histogram(Steps):
    """The weighted share q of positives in the bin of the score, for bins of equal weight.

    Zadrozny & Elkan, ICML 2001, who use ten bins. In the paper, the share can fall from one bin to the next. A
    calibrator must be non-decreasing, so here such neighbouring bins are merged (pool adjacent violators on the bins).
    Fewer bins may remain, and each has the share of positives among its own rows. Equal scores are always in the same
    bin. A bin whose rows all have the same label has the probability 0 or 1, so the log loss can be infinite.

    bins  wanted number of bins, at least 1
    """

    def __init__(self, bins: int = 10) -> None:
        self.bins = bins

    def fit_sample(self, sample: CalibrationSample) -> Self:
        if self.bins < 1:
            raise InputError(f"bins is {self.bins}: it must be at least 1")
        groups = group_by_score(sample.scores, sample.labels, sample.weights)
        starts = equal_mass(groups.weights, self.bins)
        positives, weights = np.add.reduceat(groups.positives, starts), np.add.reduceat(groups.weights, starts)
        merged = block_starts(positive_share(positives, weights), weights)
        levels = positive_share(np.add.reduceat(positives, merged), np.add.reduceat(weights, merged))
        lengths = np.diff(np.r_[starts[merged], len(groups.scores)])
        return self.set_steps(groups.scores, np.repeat(levels, lengths))
