"""The share of wrong facts among the training facts, from the likelihood ratios of planted errors."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from kgcore.arrays import Bools, Floats
from kgcore.errors import FitError
from kgcore.intervals import CONFIDENCE

TAILS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # shares of the planted errors


@dataclass(frozen=True)
class Share:
    """A share of wrong facts and its confidence interval, each in [0, 1]."""

    value: float
    low: float
    high: float


def largest_share(ratios: Floats, planted: Bools) -> Share:
    """Estimate the largest share w of wrong facts that the scores allow.

    ratios   (N,) likelihood ratio of each row: see `Ratios`
    planted  (N,) which rows are planted errors; the others are training facts

    Let P be the share of the planted errors whose ratio is at least t, and S the share of the training facts. If wrong
    facts are scored as planted errors are, at least the share w P of the training facts has such a ratio, so

        w <= S / P    for every t.

    The estimate is S / P at the t of TAILS (values of P) with the lowest upper limit. It is near w if nearly all facts
    with the highest ratios are wrong, and too high otherwise. The low end of the interval is 0: right facts may have
    the scores of errors, so all facts may be right (identifiability of the proportion: Blanchard, Lee & Scott,
    "Semi-Supervised Novelty Detection", JMLR 11, 2010, section 6). The high end is the one-sided limit for the ratio of
    two binomial shares, with half added to each number (Walter, Biometrika 62, 1975). The lowest of several limits is
    taken, so the error level is divided by their number (Bonferroni).

    Raises FitError if there are no planted errors or no training facts.
    """
    if not planted.any() or planted.all():
        raise FitError("a share of wrong facts needs planted errors and training facts")
    errors, facts = np.sort(ratios[planted]), np.sort(ratios[~planted])
    best, z = Share(1.0, 0.0, 1.0), norm.ppf(1 - (1 - CONFIDENCE) / len(TAILS))
    for tail in TAILS:
        t = errors[len(errors) - max(1, round(tail * len(errors)))]
        a, b = len(facts) - np.searchsorted(facts, t), len(errors) - np.searchsorted(errors, t)
        S, P = (a + 0.5) / (len(facts) + 0.5), (b + 0.5) / (len(errors) + 0.5)  # noqa: N806 (as in the docstring)
        spread = np.sqrt(1 / (a + 0.5) - 1 / (len(facts) + 0.5) + 1 / (b + 0.5) - 1 / (len(errors) + 0.5))
        high = float(S / P * np.exp(z * spread))
        if high < best.high:
            best = Share(min(a / len(facts) * len(errors) / b, 1.0), 0.0, high)
    return best
