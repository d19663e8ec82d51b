"""The baseline that knows only how common positives are."""

from typing import Any, Self

import numpy as np

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import BASELINES


@BASELINES.register("base_rate")
class BaseRate(Calibrator):
    """q = alpha for every triple; Brier score alpha (1 - alpha) on data at that rate. A calibrator worth its name
    is better than this (paper, section 5.2)."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        return cls(sample.base_rate)

    def predict(self, scores: Scores) -> Probabilities:
        return np.full(len(scores), self.alpha)

    def parameters(self) -> dict[str, Any]:
        return {"alpha": self.alpha}
