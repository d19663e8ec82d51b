"""Reliability: of the triples called 70 % likely, are 70 % true?"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights
from kgcore.metrics.proper import checked

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Reliability:
    """One row a bin that holds anything; arrays (m,).

    lower, upper  the bin's edges
    predicted     weighted mean probability in the bin
    observed      weighted share of true triples
    low, high     95 % Wilson interval of that share, on the effective count
    count         triples in the bin
    weight        the bin's share of all weight; sums to 1
    """

    lower: Floats
    upper: Floats
    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    count: Floats
    weight: Floats

    @property
    def ece(self) -> float:
        """Expected calibration error (Naeini et al. 2015): sum over bins of weight * |observed - predicted|."""
        return float(self.weight @ np.abs(self.observed - self.predicted))


def reliability(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10
) -> Reliability:
    """Bin by probability into `bins` bins of equal width, each (lower, upper], the first with 0.

    Intervals take the effective count (sum w)^2 / sum w^2 of the bin. Raises InputError for values out of range.
    """
    q, y, w = checked(probabilities, labels, weights)
    place = equal_width_bins(q, bins)
    total, squares = np.bincount(place, w, bins), np.bincount(place, w**2, bins)
    used = total > 0
    total, squares = total[used], squares[used]
    observed = np.bincount(place, w * y, bins)[used] / total
    predicted = np.bincount(place, w * q, bins)[used] / total
    low, high = wilson(observed, total**2 / squares)
    edges = np.linspace(0, 1, bins + 1)
    return Reliability(
        edges[:-1][used],
        edges[1:][used],
        predicted,
        observed,
        low,
        high,
        np.bincount(place, minlength=bins)[used].astype(float),
        total / total.sum(),
    )


def equal_width_bins(probabilities: Probabilities, bins: int) -> Ints:
    """Which of `bins` bins of equal width, each (lower, upper], the first with 0, holds each probability (n,)."""
    return np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)


def ece(probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10) -> float:
    """Expected calibration error over equal-width bins; see `Reliability.ece`."""
    return reliability(probabilities, labels, weights, bins).ece


def wilson(share: Floats, count: Floats, z: float = Z95) -> tuple[Floats, Floats]:
    """Wilson's score interval of a share observed `count` times; count may be fractional. Wilson 1927."""
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
