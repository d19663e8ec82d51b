"""Judged probabilities for tests: predictions, and what evaluation measures on them."""

import numpy as np

from kgcore.config import EvaluateConfig
from kgcore.evaluation.evaluate import Measured, evaluate
from kgcore.evaluation.predictions import Predictions

AUDITS = {  # those of a report
    "corruptions": dict.fromkeys(
        (
            *("corruptions", "dropped", "fallbacks", "true_in_train", "true_in_valid", "true_in_test"),
            *("equal_to_source", "on_subject", "outside_range"),
        ),
        0.0,
    )
}
FAST = EvaluateConfig(bootstrap_replicates=50)


def predictions(q: dict[str, np.ndarray], y: np.ndarray, w: np.ndarray | None = None) -> Predictions:
    """Predictions of one relation: calibrator label -> probabilities (n,), with labels (n,) and weights (n,)."""
    w = np.ones(len(y)) if w is None else w
    accuracies = {label: float(np.average((p > 0.5) == y, weights=w)) for label, p in q.items()}
    return Predictions(np.zeros((len(y), 3), dtype=np.int64), y, w, np.zeros(len(y)), q, accuracies, {}, [], False)


def measure(
    q: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, config: EvaluateConfig = FAST, **more
) -> Measured:
    """What is measured on the probabilities (n,) of one calibrator."""
    return evaluate(predictions({"a": q}, y, w), config, **more)["a"]
