"""The weighted share of positives on either side of the mean score."""

from dataclasses import dataclass

import numpy as np

from kgcore.calibration.base import Calibrator
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("mean_split")
@dataclass(frozen=True)
class MeanSplit(Calibrator):
    middle: float
    below: float
    above: float

    @classmethod
    def fit(cls, sample):
        middle = float(np.average(sample.scores, weights=sample.weights))
        low = sample.scores <= middle
        shares = [float(np.average(sample.labels[m], weights=sample.weights[m])) for m in (low, ~low)]
        return cls(middle, *shares)

    def parameters(self):
        return {"middle": self.middle, "below": self.below, "above": self.above}

    def predict(self, scores):
        return np.where(scores <= self.middle, self.below, self.above)
