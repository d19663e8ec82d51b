"""Significance tests of calibration: they test whether the error is larger than sampling error."""

import numpy as np
from scipy.special import ndtr

from kgcore.arrays import Labels, Probabilities, as_labels, as_probabilities, same_length


def spiegelhalter(probabilities: Probabilities, labels: Labels) -> float:
    """Two-sided p-value, in [0, 1], of Spiegelhalter's test that every probability is right (1986).

        z = sum (y - q)(1 - 2 q) / sqrt(sum (1 - 2 q)^2 q (1 - q))

    for probabilities q (n,) in [0, 1] and labels y (n,) 0/1. z measures how far the Brier score is from its
    expectation. If the denominator is 0 (every q is 0, 1/2 or 1), p is 1 if the numerator is also 0, and 0 otherwise.
    Raises InputError for values out of range.
    """
    q, y = _checked_pair(probabilities, labels)
    return _two_sided(float(((y - q) * (1 - 2 * q)).sum()), float(((1 - 2 * q) ** 2 * q * (1 - q)).sum()))


def calibration_in_the_large(probabilities: Probabilities, labels: Labels) -> float:
    """Two-sided p-value, in [0, 1], of the test that the share of positives equals the mean probability.

        z = sum (y - q) / sqrt(sum q (1 - q))

    for probabilities q (n,) in [0, 1] and labels y (n,) 0/1. It finds errors that Spiegelhalter's test cannot see where
    every q is near 1/2. If the denominator is 0, p is as in `spiegelhalter`. Raises InputError for values out of range.
    """
    q, y = _checked_pair(probabilities, labels)
    return _two_sided(float((y - q).sum()), float((q * (1 - q)).sum()))


def _checked_pair(probabilities: Probabilities, labels: Labels) -> tuple[Probabilities, Labels]:
    n = same_length(probabilities=probabilities, labels=labels)
    return as_probabilities(probabilities, n), as_labels(labels, n)


def _two_sided(deviation: float, variance: float) -> float:
    """The two-sided p-value of a normal deviation with this variance."""
    if variance == 0:
        return 1.0 if deviation == 0 else 0.0
    return float(2 * ndtr(-abs(deviation) / np.sqrt(variance)))
