"""Smooth curves of a score, as linear combinations of a few columns."""

from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from kgcore.arrays import Floats, Ints, Labels, Scores, Weights

OUTER = 0.05  # share of the calibration sample below the first knot, and above the last one
FURTHEST = 3.75  # largest size of a normal score


class NormalScores:
    """Normal scores: the normal quantile of the rank of a score in the calibration sample.

    x(f) = Phi^-1(F(f)), where F is the distribution function of the scores, with mid-ranks for ties. Positives and
    negatives each have half of the weight. F is linear between neighbouring scores, and constant outside of the
    sample. So x depends on the ranks alone: any increasing transformation of all scores gives the same x.
    """

    def __init__(self, scores: Scores, normal: Floats) -> None:
        self._scores, self._normal = scores, normal

    @classmethod
    def fit(cls, scores: Scores, labels: Labels, counts: Weights | None = None) -> Self:
        """Compute the ranks of the calibration sample: scores (n,), labels (n,) 0/1, both labels present.

        counts  (n,) the number of rows that each row stands for; None: 1
        """
        times = np.ones(len(labels)) if counts is None else counts
        true, false = (times * labels).sum(), (times * (1 - labels)).sum()
        weights = np.where(labels == 1, 0.5 / true, 0.5 / false) * times
        distinct, place = np.unique(scores, return_inverse=True)
        mass = np.bincount(place, weights)
        normal = ndtri(np.clip(np.cumsum(mass) - mass / 2, ndtr(-FURTHEST), ndtr(FURTHEST)))
        return cls(distinct, normal)

    def cells(self, scores: Scores, count: int) -> Ints:
        """Return for each score (n,) its cell, in 0 .. count - 1. All cells have the same width in x."""
        x = np.interp(scores, self._scores, self._normal)
        cells: Ints = np.clip(((x / FURTHEST + 1) / 2 * count).astype(np.int64), 0, count - 1)
        return cells


def cell_centres(count: int) -> Floats:
    """Return the normal score in the middle of each cell (count,)."""
    centres: Floats = ((np.arange(count) + 0.5) / count * 2 - 1) * FURTHEST
    return centres


def spline_columns(x: Floats, weights: Floats, knots: int) -> Floats:
    """Return columns (n, at most knots - 1) that span the natural cubic splines of x, without the constant.

    x        (n,) normal scores
    weights  (n,) weights of the rows, not negative
    knots    number of knots, at least 3: normal quantiles at equally spaced levels from OUTER to 1 - OUTER

    The spline is linear outside of the knots (Hastie, Tibshirani & Friedman, The Elements of Statistical Learning,
    section 5.2.1). The columns have weighted mean 0 and weighted covariance 1, and the first is x, standardised.
    Columns that the rows cannot tell apart, because they have few distinct x, are left out.
    """
    at = ndtri(np.linspace(OUTER, 1 - OUTER, knots))

    def bend(k: int) -> Floats:
        cubes: Floats = np.maximum(x - at[k], 0) ** 3 - np.maximum(x - at[-1], 0) ** 3
        scaled: Floats = cubes / (at[-1] - at[k])
        return scaled

    columns = [np.ones_like(x), x, *(bend(k) - bend(knots - 2) for k in range(knots - 2))]
    share = weights / weights.sum()
    kept: list[Floats] = []
    for column in columns:
        size = np.sqrt(share @ column**2)
        rest = column
        for _ in range(2):  # the second pass removes what rounding errors leave
            for other in kept:
                rest = rest - (share @ (rest * other)) * other
        left = np.sqrt(share @ rest**2)
        if left > 1e-6 * size:
            kept.append(rest / left)
    return np.stack(kept[1:], axis=1) if len(kept) > 1 else np.empty((len(x), 0))
