"""How good the probabilities are: one `Measured` a calibrator."""

from dataclasses import dataclass

from kgcore.config import EvaluateConfig
from kgcore.metrics.proper import brier, log_loss
from kgcore.metrics.reliability import Reliability, reliability
from kgcore.predictions import Predictions


@dataclass(frozen=True)
class Measured:
    """The scores of one calibrator on the test split, and its reliability diagram."""

    brier: float
    log_loss: float
    ece: float
    accuracy: float
    reliability: Reliability

    def metrics(self) -> dict[str, float]:
        """The numbers alone, by name."""
        return {name: getattr(self, name) for name in ("brier", "log_loss", "ece", "accuracy")}


def evaluate(predictions: Predictions, config: EvaluateConfig) -> dict[str, Measured]:
    """Calibrator label -> what it measures on the test split: Brier score, log loss (clip 1e-7), calibration error over
    equal-width bins, accuracy at tau (paper, section 5)."""
    measured = {}
    for label, q in predictions.probabilities.items():
        judged = (q, predictions.labels, predictions.weights)
        diagram = reliability(*judged, config.bins)
        measured[label] = Measured(
            brier(*judged), log_loss(*judged), diagram.ece, predictions.accuracies[label], diagram
        )
    return measured
