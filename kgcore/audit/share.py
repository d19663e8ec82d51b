"""The share of true facts in a population, from calibrated probabilities of another base rate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2

from kgcore.arrays import Probabilities, as_probabilities
from kgcore.calibration.shift import check_base_rate
from kgcore.errors import FitError

CONFIDENCE = 0.95
_EDGE = 1e-9  # the share of wrong facts is searched between this value and 1 minus this value


@dataclass(frozen=True)
class Share:
    """A share of wrong facts and its confidence interval, each in [0, 1]."""

    value: float
    low: float
    high: float


def wrong_share(probabilities: Probabilities, base_rate: float, confidence: float = CONFIDENCE) -> Share:
    """Estimate the share w of wrong facts in a population, from the probabilities of its facts.

    probabilities  (n,) calibrated probabilities at the base rate `base_rate`, each in [0, 1]
    base_rate      alpha, the share of true triples that the probabilities assume, in (0, 1)

    If the scores of the true facts and of the wrong facts are distributed as those of the calibration's positives and
    negatives, a fact of probability q at alpha has in the population the likelihood, up to a constant,

        l(w) = (1 - w) q / alpha + w (1 - q) / (1 - alpha).

    The estimate is the w of greatest likelihood. The EM iterations of Saerens, Latinne & Decaestecker (Neural
    Computation 14, 2002, section 2.3) converge to it; sum log l is concave, so a root of its derivative finds it
    directly. The interval holds the w whose log-likelihood is at most half a chi-square quantile below the greatest. It
    counts the population as a sample, and the probabilities as exact.

    Raises InputError for values out of range, FitError if there are no probabilities.
    """
    check_base_rate("base_rate", base_rate)
    q = as_probabilities(probabilities)
    if not len(q):
        raise FitError("there are no probabilities: a share of wrong facts needs at least one")
    true, wrong = q / base_rate, (1 - q) / (1 - base_rate)

    def slope(w: float) -> float:
        return float(((wrong - true) / ((1 - w) * true + w * wrong)).sum())

    def likelihood(w: float) -> float:
        return float(np.log((1 - w) * true + w * wrong).sum())

    value = _root(slope)
    drop = float(chi2.ppf(confidence, 1)) / 2
    top = likelihood(value)

    def deficit(w: float) -> float:
        return likelihood(w) - top + drop

    low = 0.0 if value <= _EDGE or deficit(_EDGE) >= 0 else float(brentq(deficit, _EDGE, value))
    high = (
        1.0 if value >= 1 - _EDGE or deficit(1 - _EDGE) >= 0 else float(brentq(deficit, max(value, _EDGE), 1 - _EDGE))
    )
    return Share(value, low, high)


def _root(slope: Callable[[float], float]) -> float:
    """Return where a decreasing function is 0, or the end of the range where it does not change its sign."""
    if slope(_EDGE) <= 0:
        return 0.0
    if slope(1 - _EDGE) >= 0:
        return 1.0
    return float(brentq(slope, _EDGE, 1 - _EDGE))
