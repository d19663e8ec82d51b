"""Helpers that make predictions for tests and measure them as the evaluation does."""

import numpy as np

from kgcore.config import EvaluateConfig
from kgcore.measure.evaluation.evaluate import Measured, evaluate
from kgcore.measure.evaluation.predictions import Predictions

AUDITS = {  # the calibrators of a report
    "corruptions": dict.fromkeys(
        (
            *("corruptions", "dropped", "fallbacks", "true_in_train", "true_in_valid", "true_in_test"),
            *("redrawn", "alone", "equal_to_source", "on_subject", "outside_range"),
        ),
        0.0,
    )
}
FAST = EvaluateConfig(bootstrap_replicates=50)


def predictions(q: dict[str, np.ndarray], y: np.ndarray, w: np.ndarray | None = None) -> Predictions:
    """Return predictions of one relation.

    The arguments are probabilities (n,) by calibrator label, labels (n,) and weights (n,).
    """
    w = np.ones(len(y)) if w is None else w
    accuracies = {label: float(np.average((p > 0.5) == y, weights=w)) for label, p in q.items()}
    return Predictions(np.zeros((len(y), 3), dtype=np.int64), y, w, np.zeros(len(y)), q, accuracies, {}, [], False)


def measure(
    q: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, config: EvaluateConfig = FAST, **more
) -> Measured:
    """Measure the probabilities (n,) of one calibrator."""
    return evaluate(predictions({"a": q}, y, w), config, **more)["a"]
