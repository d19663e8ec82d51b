"""Judged triples grouped by probability: the input of every metric of a weighted or resampled set of triples."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.rows import judged_rows


@dataclass(frozen=True)
class Tally:
    """One entry per distinct probability; arrays (g,).

    q                                   the probabilities, increasing
    positive, negative                  total weight of the true and of the false triples with this probability, >= 0
    positive_squares, negative_squares  sums of their squared weights

    Equal probabilities share one entry, so a metric of a tally does not depend on the order of ties. Resampling can
    leave entries without weight; they do not change any metric.
    """

    q: Probabilities
    positive: Floats
    negative: Floats
    positive_squares: Floats
    negative_squares: Floats

    @cached_property
    def weight(self) -> Floats:
        """Total weight of the triples with each probability (g,)."""
        return self.positive + self.negative

    @cached_property
    def residual(self) -> Floats:
        """Sum of w_i (y_i - q_i) over the triples with each probability (g,)."""
        return self.positive * (1 - self.q) - self.negative * self.q

    def mean(self, if_true: Floats, if_false: Floats) -> float:
        """Weighted mean over triples of a value: if_true (g,) for true triples, if_false (g,) for false ones."""
        total = self.positive @ if_true + self.negative @ if_false
        return float(total / self.weight.sum())


class SortedRows:
    """Probabilities, labels and weights (n,), sorted once, so that many resamplings of the rows are tallied fast.

    most  the largest number of distinct probabilities that are kept apart. If there are more, neighbours are merged
          into about `most` groups of equally many rows, each at its weighted mean. That is much faster and hardly
          changes how a metric varies.
    Raises InputError for values out of range.
    """

    def __init__(
        self, probabilities: Probabilities, labels: Labels, weights: Weights | None = None, most: int | None = None
    ) -> None:
        q, y, w = judged_rows(probabilities, labels, weights)
        self.probabilities, self.labels, self.weights = q, y, w
        distinct, place, count = np.unique(q, return_inverse=True, return_counts=True)
        if most is not None and len(distinct) > most:
            group = (np.cumsum(count) - 1) * most // len(q)
            place = np.unique(group, return_inverse=True)[1][place]
            distinct = np.bincount(place, w * q) / np.bincount(place, w)
        self.q = distinct
        self._sides = [(rows, place[rows], w[rows], w[rows] ** 2) for rows in map(np.flatnonzero, (y == 1, y == 0))]

    def tally(self, counts: Floats | None = None) -> Tally:
        """The tally in which row i occurs counts[i] times; counts (n,), None: every row once."""
        sums: list[Floats] = []
        squares: list[Floats] = []
        for rows, place, w, squared in self._sides:
            times = np.ones(len(rows)) if counts is None else counts[rows]
            sums.append(np.bincount(place, times * w, len(self.q)).astype(np.float64))
            squares.append(np.bincount(place, times * squared, len(self.q)).astype(np.float64))
        return Tally(self.q, *sums, *squares)


def tally(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Tally:
    """Tally probabilities (n,) in [0, 1] with their labels and weights. Raises InputError for values out of range."""
    return SortedRows(probabilities, labels, weights).tally()
