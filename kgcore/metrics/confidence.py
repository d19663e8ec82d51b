"""Errors against confidences. They are defined only if the triples have confidences."""

import math

from kgcore.metrics.base import Draw, Metric
from kgcore.registries import METRICS


def mean_squared_error_of(draw: Draw) -> float:
    """Return sum_i w_i (q_i - c_i)^2 / sum_i w_i, in [0, 1], for confidences c_i; NaN if there are none.

    It is the Brier score of confidences. It is lowest for the expected confidence.
    """
    errors = draw.tally.errors
    return math.nan if errors is None else float(errors.squared.sum() / draw.tally.weight.sum())


def mean_absolute_error_of(draw: Draw) -> float:
    """Return sum_i w_i |q_i - c_i| / sum_i w_i, in [0, 1], for confidences c_i; NaN if there are none.

    It is lowest for the median confidence, not for the mean. So it does not decide which calibrator is best.
    """
    errors = draw.tally.errors
    return math.nan if errors is None else float(errors.absolute.sum() / draw.tally.weight.sum())


METRICS.add(
    "mean_squared_error",
    Metric("mean squared error", "confidence", "lowest", mean_squared_error_of, order=170, column=10),
)
METRICS.add(
    "mean_absolute_error",
    Metric("mean absolute error", "confidence", "lowest", mean_absolute_error_of, leading=True, order=180, column=20),
)
