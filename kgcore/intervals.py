"""Exact confidence limits of a share (Clopper & Pearson, Biometrika 26, 1934)."""

import numpy as np
from scipy.special import betaincinv

from kgcore.arrays import Floats, Ints

CONFIDENCE = 0.95


def lower_limits(successes: Floats | Ints, trials: Floats | Ints, level: float) -> Floats:
    """Return the lower limits (m,) of shares. Each exceeds the true share with the probability `level`.

    successes, trials  (m,) may be fractions
    """
    limits = betaincinv(np.where(successes > 0, successes, 1.0), trials - successes + 1, level)
    return np.where(successes > 0, limits, 0.0)


def exact_limits(successes: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return both limits of a share: together they hold it with at least the probability `confidence`."""
    counts, tail = np.array([successes, trials - successes]), (1 - confidence) / 2
    low, not_high = lower_limits(counts, np.full(2, trials), tail).tolist()
    return low, 1 - not_high
