"""The contract of a calibrator, and the binding of a fitted one to the model and data it was fitted on."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration import CALIBRATORS
from kgcore.calibration.sample import CalibrationSample
from kgcore.errors import InputError, MismatchError

FORMAT = 1


class Calibrator(ABC):
    """A map from scores to probabilities, non-decreasing in the score. It takes scores, never probabilities."""

    @classmethod
    @abstractmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        """The calibrator of the sample. Raises FitError when the fit does not converge."""

    @abstractmethod
    def predict(self, scores: Scores) -> Probabilities:
        """Scores (n,), any finite numbers -> probabilities (n,) in [0, 1]."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What `from_parameters` builds the same calibrator from: numbers and lists, as JSON holds them."""

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """The calibrator with these parameters."""
        return cls(**parameters)


@dataclass(frozen=True)
class BoundCalibrator:
    """A fitted calibrator that knows what it belongs to and what its probabilities are about.

    name       registered name of the calibrator
    negatives  where its negatives came from: ground_truth, synthetic, or none for a baseline
    base_rate  share of positives, by weight, in the sample it was fitted on
    model      fingerprint of the model whose scores it takes
    dataset    fingerprint of the graph it was fitted on
    """

    name: str
    negatives: str
    base_rate: float
    model: str
    dataset: str
    calibrator: Calibrator

    @property
    def label(self) -> str:
        """Its name in tables and metrics: `ground_truth.platt`, or just `uncalibrated` for a baseline."""
        return self.name if self.negatives == "none" else f"{self.negatives}.{self.name}"

    def predict(self, scores: Scores, model: str) -> Probabilities:
        """Probabilities of scores of the model with that fingerprint. Raises MismatchError for another model's."""
        if model != self.model:
            raise MismatchError(
                f"the calibrator {self.label} is of model {self.model[:12]}, these scores are of model {model[:12]}"
            )
        return self.calibrator.predict(scores)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: no code travels with a calibrator."""
        return {
            "format": FORMAT,
            "calibrator": self.name,
            "negatives": self.negatives,
            "base_rate": self.base_rate,
            "model": self.model,
            "dataset": self.dataset,
            "parameters": self.calibrator.parameters(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The calibrator `to_json` wrote. Raises InputError for another format or an unknown calibrator."""
        if data.get("format") != FORMAT:
            raise InputError(f"the calibrator has format {data.get('format')!r}: this version reads format {FORMAT}")
        fitted = CALIBRATORS.get(data["calibrator"]).from_parameters(data["parameters"])
        return cls(data["calibrator"], data["negatives"], data["base_rate"], data["model"], data["dataset"], fitted)
