"""Judged probabilities pooled by value: what every figure of a weighted or resampled set of triples is made from."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.proper import checked


@dataclass(frozen=True)
class Tally:
    """One entry a distinct probability; arrays (g,).

    q                                   the probabilities, increasing
    positive, negative                  weight of the true and of the false triples that have it, >= 0
    positive_squares, negative_squares  sums of their squared weights

    Equal probabilities are one entry, so no figure made from a tally depends on the order of ties. An entry without any
    weight, as a resampling leaves some, changes nothing.
    """

    q: Probabilities
    positive: Floats
    negative: Floats
    positive_squares: Floats
    negative_squares: Floats

    @cached_property
    def weight(self) -> Floats:
        """Weight of all triples that have the probability (g,)."""
        return self.positive + self.negative

    @cached_property
    def residual(self) -> Floats:
        """Sum of w_i (y_i - q_i) over the triples that have the probability (g,)."""
        return self.positive * (1 - self.q) - self.negative * self.q

    def mean(self, if_true: Floats, if_false: Floats) -> float:
        """Weighted mean over triples of what is if_true (g,) of a true one and if_false (g,) of a false one."""
        total = self.positive @ if_true + self.negative @ if_false
        return float(total / self.weight.sum())


class Pool:
    """Probabilities, labels and weights (n,), sorted once, to be tallied under many resamplings of the rows.

    most  more than so many distinct probabilities are pooled with their neighbours into about so many groups of equally
          many rows, each at its weighted mean: far quicker, and of no account for how a figure varies
    Raises InputError for values out of range.
    """

    def __init__(
        self, probabilities: Probabilities, labels: Labels, weights: Weights | None = None, most: int | None = None
    ) -> None:
        q, y, w = checked(probabilities, labels, weights)
        distinct, place, count = np.unique(q, return_inverse=True, return_counts=True)
        if most is not None and len(distinct) > most:
            group = (np.cumsum(count) - 1) * most // len(q)
            place = np.unique(group, return_inverse=True)[1][place]
            distinct = np.bincount(place, w * q) / np.bincount(place, w)
        self.q = distinct
        self._sides = [(rows, place[rows], w[rows], w[rows] ** 2) for rows in map(np.flatnonzero, (y == 1, y == 0))]

    def tally(self, counts: Floats | None = None) -> Tally:
        """The tally with every row (n,) taken `counts` times; once, where they are not given."""
        sums: list[Floats] = []
        squares: list[Floats] = []
        for rows, place, w, squared in self._sides:
            times = np.ones(len(rows)) if counts is None else counts[rows]
            sums.append(np.bincount(place, times * w, len(self.q)).astype(np.float64))
            squares.append(np.bincount(place, times * squared, len(self.q)).astype(np.float64))
        return Tally(self.q, *sums, *squares)


def tally(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Tally:
    """Pool probabilities (n,) in [0, 1] with their labels and weights. Raises InputError for values out of range."""
    return Pool(probabilities, labels, weights).tally()
