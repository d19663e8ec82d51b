"""The baseline without calibration: it treats the score as a log-odds."""

from typing import Any, Self

from scipy.special import expit

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import BASELINES


@BASELINES.register("uncalibrated")
class Uncalibrated(Calibrator):
    """The usual probability without calibration, q = 1 / (1 + exp(-f)) for a score f (paper, section 5)."""

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        return cls()

    def predict(self, scores: Scores) -> Probabilities:
        q: Probabilities = expit(scores)
        return q

    def parameters(self) -> dict[str, Any]:
        return {}
