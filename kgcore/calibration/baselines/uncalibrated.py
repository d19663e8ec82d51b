"""The baseline without calibration: it treats the score as a log-odds."""

from typing import Self

from scipy.special import expit

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import BASELINES


@BASELINES.register("uncalibrated")
class Uncalibrated(Calibrator):
    """The usual probability without calibration, q = 1 / (1 + exp(-f)) for a score f (paper, section 5)."""

    def fit_sample(self, sample: CalibrationSample) -> Self:
        return self.set_fitted()

    def calibrate(self, scores: Scores) -> Probabilities:
        q: Probabilities = expit(scores)
        return q
