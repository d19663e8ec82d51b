"""The baseline that predicts the base rate for every triple."""

from typing import Self

import numpy as np

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import BASELINES


@BASELINES.register("base_rate")
class ConstantBaseRate(Calibrator):
    """The constant probability q = alpha for every triple.

    On data with base rate alpha, the Brier score of this baseline is alpha (1 - alpha). A useful calibrator has a lower
    Brier score (paper, section 5.2).

    alpha_  base rate, in (0, 1)
    """

    fitted = ("alpha",)
    alpha_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        return self.set_fitted(alpha=sample.base_rate)

    def calibrate(self, scores: Scores) -> Probabilities:
        return np.full(len(scores), self.alpha_)
