"""Proper scores: metrics whose expected value is lowest for the true probabilities, and for no others."""

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.base import NOT_NEGATIVE, Draw, Metric, Sample
from kgcore.metrics.rows import judged_rows
from kgcore.registries import METRICS

CLIP = 1e-7  # as in the published code


def brier(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the Brier score sum_i w_i (q_i - y_i)^2 / sum_i w_i, in [0, 1]. Brier 1950; paper, section 4, equation 2.

    For confidences y_i in [0, 1] it is the mean squared error. Raises InputError for values outside [0, 1].
    """
    q, y, w = judged_rows(probabilities, labels, weights)
    return float(np.average((q - y) ** 2, weights=w))


def log_loss(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the log loss -sum_i w_i [y_i log q_i + (1 - y_i) log(1 - q_i)] / sum_i w_i, in nats.

    q is clipped to [CLIP, 1 - CLIP] first. Paper, section 4. Raises InputError as `brier` does.
    """
    q, y, w = judged_rows(probabilities, labels, weights)
    q = q.clip(CLIP, 1 - CLIP)
    return float(-np.average(y * np.log(q) + (1 - y) * np.log1p(-q), weights=w))


def brier_of(draw: Draw) -> float:
    """Compute `brier` on a draw."""
    errors = draw.tally.errors
    if errors is not None:
        return float(errors.squared.sum() / draw.tally.weight.sum())
    return expected_brier_of(draw)


def expected_brier_of(draw: Draw) -> float:
    """Compute the expected Brier score on a draw, if each triple is true with the probability that is its confidence.

    It is the Brier score plus the mean of c (1 - c) over the confidences c. For labels 0 and 1, it is the Brier score.
    """
    return draw.tally.mean(*draw.sample.once(_squared_errors))


def log_loss_of(draw: Draw) -> float:
    """Compute `log_loss` on a draw."""
    return draw.tally.mean(*draw.sample.once(_logarithms))


def _squared_errors(sample: Sample) -> tuple[Floats, Floats]:
    """Return, for each distinct probability, the squared error of a true triple (g,) and of a false triple (g,)."""
    q = sample.rows.q
    return (1 - q) ** 2, q**2


def _logarithms(sample: Sample) -> tuple[Floats, Floats]:
    """Return, for each distinct probability, the log loss of a true triple (g,) and of a false triple (g,)."""
    q = sample.rows.q.clip(CLIP, 1 - CLIP)
    return -np.log(q), -np.log1p(-q)


def _brier_of_rows(sample: Sample) -> float:
    return brier(sample.rows.probabilities, sample.rows.labels, sample.rows.weights)


def _log_loss_of_rows(sample: Sample) -> float:
    return log_loss(sample.rows.probabilities, sample.rows.labels, sample.rows.weights)


METRICS.add(
    "brier",
    Metric(
        "Brier score", "headline", "lowest", brier_of, _brier_of_rows, leading=True, with_ends=True, order=10, column=10
    ),
)
METRICS.add(
    "log_loss",
    Metric("log loss", "headline", "lowest", log_loss_of, _log_loss_of_rows, NOT_NEGATIVE, order=20, column=20),
)
