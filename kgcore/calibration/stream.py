"""Calibration samples of any size: rows that are read in blocks, as often as a fit needs them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Labels, Scores, Weights, as_floats, as_labels, as_weights, same_length
from kgcore.errors import FitError

BLOCK = 2**15  # rows of a block: its temporary arrays stay in the cache of the processor
BINS = 4096
Block = tuple[Scores, Labels, Weights]


@dataclass(frozen=True)
class Totals:
    """Sums over all rows of a stream. A pair has the value of the negatives first, then that of the positives.

    rows, weights, squares  number of rows, sum of their weights, and sum of the squares of their weights
    mean, spread            weighted mean and weighted standard deviation of the scores
    low, high               lowest and highest score
    """

    rows: tuple[int, int]
    weights: tuple[float, float]
    squares: tuple[float, float]
    mean: float
    spread: float
    low: float
    high: float

    @property
    def base_rate(self) -> float:
        """Return the share of positives, by weight."""
        return self.weights[1] / sum(self.weights)


@dataclass(frozen=True)
class SampleStream:
    """A calibration sample that is read in blocks, so that memory holds one block, however many rows there are.

    read  returns an iterator over the blocks, with the same rows each time. A block is three arrays (k,), k >= 1:
          finite scores, labels 0/1, and positive weights, whose scale is the same in all blocks

    `totals` raises InputError for arrays of different lengths or with values out of range, and FitError if all labels
    are equal.
    """

    read: Callable[[], Iterator[Block]]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in float64. `totals` checks the values: use it first."""
        for block in self.read():
            scores, labels, weights = (np.asarray(values, dtype=np.float64) for values in block)
            yield scores, labels, weights

    @cached_property
    def totals(self) -> Totals:
        """The sums over all rows. Means and squared deviations of blocks are pooled (Chan, Golub & LeVeque 1979)."""
        rows, weights, squares = np.zeros(2, dtype=np.int64), np.zeros(2), np.zeros(2)
        total = mean = deviations = 0.0
        low, high = np.inf, -np.inf
        for scores, labels, weights_read in self.read():
            n = same_length(scores=scores, labels=labels, weights=weights_read)
            f, y, w = as_floats("scores", scores, n), as_labels(labels, n), as_weights(weights_read, n)
            places = y.astype(np.int64)
            rows += np.bincount(places, minlength=2)
            weights += np.bincount(places, w, minlength=2)
            squares += np.bincount(places, w**2, minlength=2)
            own, centre = float(w.sum()), float(np.average(f, weights=w))
            deviations += float(w @ (f - centre) ** 2) + (centre - mean) ** 2 * total * own / (total + own)
            mean += (centre - mean) * own / (total + own)
            total += own
            low, high = min(low, float(f.min())), max(high, float(f.max()))
        if not rows.all():
            found = "positives" if rows[1] else "negatives" if rows[0] else "no rows"
            raise FitError(f"the sample has {found} only: a calibrator needs positives and negatives")
        pairs = (int(rows[0]), int(rows[1])), (float(weights[0]), float(weights[1]))
        spread = float(np.sqrt(deviations / total)) if low < high else 0.0
        return Totals(*pairs, (float(squares[0]), float(squares[1])), mean, spread, low, high)

    @cached_property
    def condensed(self) -> Block:
        """At most 2 BINS rows that are close to the sample: the mean score of each label in each of BINS bins.

        The bins divide the range of the scores into equal parts. Means are computed from the lower end of their bin:
        rounding then hardly ever moves the mean of equal scores, which would move scores at the end of a bin out of it.
        """
        low, width = self.totals.low, (self.totals.high - self.totals.low) / BINS or 1.0
        ends = np.tile(low + width * np.arange(BINS), 2)
        weights, sums = np.zeros(2 * BINS), np.zeros(2 * BINS)
        for f, y, w in self.blocks():
            place = ((f - low) / width).astype(np.int64).clip(max=BINS - 1) + BINS * y.astype(np.int64)
            weights += np.bincount(place, w, 2 * BINS)
            sums += np.bincount(place, w * (f - ends[place]), 2 * BINS)
        some = np.flatnonzero(weights)
        return ends[some] + sums[some] / weights[some], np.where(some >= BINS, 1.0, 0.0), weights[some]


def stream_of(scores: Scores, labels: Labels, weights: Weights) -> SampleStream:
    """Return arrays (n,) as a stream of blocks of BLOCK rows. The arrays may lie in files: see numpy.memmap."""

    def read() -> Iterator[Block]:
        for start in range(0, len(scores), BLOCK):
            part = slice(start, start + BLOCK)
            yield scores[part], labels[part], weights[part]

    return SampleStream(read)
