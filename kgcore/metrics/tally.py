"""Triples grouped by probability: the input of every metric on a weighted or resampled set of triples."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights
from kgcore.metrics.rows import judged_rows


@dataclass(frozen=True)
class Errors:
    """Sums over the triples with each probability q, for confidences c; arrays (g,).

    squared   sum of w (q - c)^2
    absolute  sum of w |q - c|
    squares   sum of w^2 (q - c)^2
    """

    squared: Floats
    absolute: Floats
    squares: Floats


@dataclass(frozen=True)
class Tally:
    """Triples grouped by probability, with one entry for each distinct probability; arrays (g,).

    A triple with a confidence c, between 0 and 1, counts as c of a true triple and 1 - c of a false one.

    q                                   the probabilities, increasing
    positive, negative                  total weight of the true and of the false triples with this probability, >= 0
    positive_squares, negative_squares  sums of the squared weights of these triples
    errors                              sums of the differences between probability and confidence; None if every label
                                        is 0 or 1

    Equal probabilities share one entry, so a metric of a tally does not depend on the order of ties. After resampling,
    some entries can have no weight. Such entries do not change any metric.
    """

    q: Probabilities
    positive: Floats
    negative: Floats
    positive_squares: Floats
    negative_squares: Floats
    errors: Errors | None = None

    @cached_property
    def weight(self) -> Floats:
        """Return the total weight of the triples with each probability (g,)."""
        return self.positive + self.negative

    @cached_property
    def residual(self) -> Floats:
        """Return the sum of w_i (y_i - q_i) over the triples with each probability (g,)."""
        return self.positive * (1 - self.q) - self.negative * self.q

    def mean(self, if_true: Floats, if_false: Floats) -> float:
        """Return the weighted mean over triples of a value that depends only on the probability and the label.

        if_true, if_false  (g,) the value of a true and of a false triple with each probability
        """
        total = self.positive @ if_true + self.negative @ if_false
        return float(total / self.weight.sum())


class SortedRows:
    """Probabilities, labels and weights (n,), sorted once, so that tallies of many resamplings are fast.

    A label is 0, 1, or a confidence in between. `soft` says whether there is such a confidence.

    place  (n,) position of each triple's probability in `q`
    most  the largest number of distinct probabilities to keep. If there are more, neighbouring probabilities are merged
          into at most `most` groups with about equal numbers of rows, and each group gets its weighted mean. This is
          much faster, and it hardly changes how a metric varies. None: keep all.

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
        self.q, self.place = distinct, place
        self.soft = bool(((y > 0) & (y < 1)).any())
        shares = (np.flatnonzero(y > 0), y), (np.flatnonzero(y < 1), 1 - y)
        self._sides = [(rows, place[rows], w[rows] * part[rows], w[rows] ** 2 * part[rows]) for rows, part in shares]

    def tally(self, counts: Floats | None = None) -> Tally:
        """Return the tally in which row i occurs counts[i] times; counts (n,). None: every row occurs once."""
        sums: list[Floats] = []
        squares: list[Floats] = []
        for rows, place, w, squared in self._sides:
            times = np.ones(len(rows)) if counts is None else counts[rows]
            sums.append(np.bincount(place, times * w, len(self.q)).astype(np.float64))
            squares.append(np.bincount(place, times * squared, len(self.q)).astype(np.float64))
        (positive, negative), (positive_squares, negative_squares) = sums, squares
        errors = self._errors(counts) if self.soft else None
        return Tally(self.q, positive, negative, positive_squares, negative_squares, errors)

    def _errors(self, counts: Floats | None) -> Errors:
        """Return the sums of the differences between probabilities and confidences; `counts` as in `tally`."""
        w, apart = self.weights, np.abs(self.probabilities - self.labels)
        times = np.ones(len(w)) if counts is None else counts

        def summed(values: Floats) -> Floats:
            return np.bincount(self.place, times * values, len(self.q)).astype(np.float64)

        return Errors(summed(w * apart**2), summed(w * apart), summed(w**2 * apart**2))

    def merged(self) -> tuple["SortedRows", Ints]:
        """Merge the rows of each distinct probability and label, 0 or 1, into one row, with their mean weight.

        Return the m merged rows, and how many rows each of them stands for (m,). A bootstrap of many rows draws these
        numbers from a multinomial distribution, which takes far less time. It differs from a bootstrap of the rows only
        if rows of one label and one probability have different weights.
        """
        parts = []
        for label, (_, place, w, _) in zip((1.0, 0.0), self._sides, strict=True):
            number = np.bincount(place, minlength=len(self.q))
            used = np.flatnonzero(number)
            mean = np.bincount(place, w, len(self.q))[used] / number[used]
            parts.append((self.q[used], np.full(len(used), label), mean, number[used]))
        q, y, weights, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return SortedRows(q, y, weights), numbers
