"""The weighted share of positives on either side of the mean score."""

import numpy as np

from kgcore.calibrate.base import Calibrator
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("mean_split")
class MeanSplit(Calibrator):
    fitted = ("middle", "below", "above")

    def fit_sample(self, sample):
        middle = float(np.average(sample.scores, weights=sample.weights))
        low = sample.scores <= middle
        below, above = sorted(float(np.average(sample.labels[m], weights=sample.weights[m])) for m in (low, ~low))
        return self.set_fitted(middle=middle, below=below, above=above)

    def calibrate(self, scores):
        return np.where(scores <= self.middle_, self.below_, self.above_)
