"""Significance tests of calibration: is the calibration error larger than sampling error alone would explain?"""

import numpy as np
from scipy.special import ndtr

from kgcore.arrays import Labels, Probabilities, as_labels, as_probabilities, same_length


def spiegelhalter(probabilities: Probabilities, labels: Labels) -> float:
    """Return the two-sided p-value, in [0, 1], of Spiegelhalter's test (1986) that every probability is right.

        z = sum (y - q)(1 - 2 q) / sqrt(sum (1 - 2 q)^2 q (1 - q))

    for probabilities q (n,) in [0, 1] and labels y (n,) 0/1. z measures how far the Brier score is from its
    expectation. The denominator is 0 if every q is 0, 1/2 or 1. Then p is 1 if the numerator is also 0, and else 0.
    Raises InputError for values out of range.
    """
    q, y = _checked_pair(probabilities, labels)
    return _two_sided(float(((y - q) * (1 - 2 * q)).sum()), float(((1 - 2 * q) ** 2 * q * (1 - q)).sum()))


def calibration_in_the_large(probabilities: Probabilities, labels: Labels) -> float:
    """Return the two-sided p-value, in [0, 1], of the test that the share of positives equals the mean probability.

        z = sum (y - q) / sqrt(sum q (1 - q))

    for probabilities q (n,) in [0, 1] and labels y (n,) 0/1. If every q is near 1/2, this test finds errors that
    Spiegelhalter's test cannot find. If the denominator is 0, p is as in `spiegelhalter`. Raises InputError for values
    out of range.
    """
    q, y = _checked_pair(probabilities, labels)
    return _two_sided(float((y - q).sum()), float((q * (1 - q)).sum()))


def _checked_pair(probabilities: Probabilities, labels: Labels) -> tuple[Probabilities, Labels]:
    n = same_length(probabilities=probabilities, labels=labels)
    return as_probabilities(probabilities, n), as_labels(labels, n)


def _two_sided(deviation: float, variance: float) -> float:
    """Return the two-sided p-value of a deviation that is normal with mean 0 and this variance."""
    if variance == 0:
        return 1.0 if deviation == 0 else 0.0
    return float(2 * ndtr(-abs(deviation) / np.sqrt(variance)))
