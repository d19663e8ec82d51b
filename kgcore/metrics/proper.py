"""Proper scores: metrics whose expected value is lowest for the true probabilities, and for no others.

The errors against confidences are defined only if the triples have confidences.
"""

import math

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.base import NOT_NEGATIVE, Metric, Sample, Tally, checked_rows
from kgcore.registries import METRICS

CLIP = 1e-7  # as in the published code


def brier(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the Brier score sum_i w_i (q_i - y_i)^2 / sum_i w_i, in [0, 1]. Brier 1950; paper, section 4, equation 2.

    For confidences y_i in [0, 1] it is the mean squared error. Raises InputError for values outside [0, 1].
    """
    q, y, w = checked_rows(probabilities, labels, weights)
    return float(np.average((q - y) ** 2, weights=w))


def log_loss(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the log loss -sum_i w_i [y_i log q_i + (1 - y_i) log(1 - q_i)] / sum_i w_i, in nats.

    q is clipped to [CLIP, 1 - CLIP] first. Paper, section 4. Raises InputError as `brier` does.
    """
    q, y, w = checked_rows(probabilities, labels, weights)
    q = q.clip(CLIP, 1 - CLIP)
    return float(-np.average(y * np.log(q) + (1 - y) * np.log1p(-q), weights=w))


def brier_of(t: Tally) -> float:
    """Compute `brier` on a tally."""
    return expected_brier_of(t) if t.errors is None else mean_squared_error_of(t)


def expected_brier_of(t: Tally) -> float:
    """Compute the expected Brier score on a tally, if each triple is true with the probability that is its confidence.

    It is the Brier score plus the mean of c (1 - c) over the confidences c. For labels 0 and 1, it is the Brier score.
    """
    return t.mean((1 - t.q) ** 2, t.q**2)


def log_loss_of(t: Tally) -> float:
    """Compute `log_loss` on a tally."""
    return t.mean(*t.sample.once(_logarithms))


def _logarithms(sample: Sample) -> tuple[Floats, Floats]:
    """Return, for each distinct probability, the log loss of a true triple (g,) and of a false triple (g,)."""
    q = sample.q.clip(CLIP, 1 - CLIP)
    return -np.log(q), -np.log1p(-q)


def mean_squared_error_of(t: Tally) -> float:
    """Return sum_i w_i (q_i - c_i)^2 / sum_i w_i, in [0, 1], for confidences c_i; NaN without confidences.

    It is the Brier score of confidences. It is lowest for the expected confidence.
    """
    return math.nan if t.errors is None else float(t.errors.squared.sum() / t.weight.sum())


def mean_absolute_error_of(t: Tally) -> float:
    """Return sum_i w_i |q_i - c_i| / sum_i w_i, in [0, 1], for confidences c_i; NaN without confidences.

    It is lowest for the median confidence, not for the mean. So it does not decide which calibrator is best.
    """
    return math.nan if t.errors is None else float(t.errors.absolute.sum() / t.weight.sum())


METRICS.add(
    "brier", Metric("Brier score", "headline", "lowest", brier_of, leading=True, with_ends=True, order=10, column=10)
)
METRICS.add("log_loss", Metric("log loss", "headline", "lowest", log_loss_of, NOT_NEGATIVE, order=20, column=20))
METRICS.add(
    "mean_squared_error",
    Metric("mean squared error", "confidence", "lowest", mean_squared_error_of, order=170, column=10),
)
METRICS.add(
    "mean_absolute_error",
    Metric("mean absolute error", "confidence", "lowest", mean_absolute_error_of, leading=True, order=180, column=20),
)
