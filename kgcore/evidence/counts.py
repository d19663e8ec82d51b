"""Counts of 64-bit keys, and sums over the tokens of a row, that evidence from names is made of."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints


@dataclass(frozen=True)
class Counts:
    """How often each key occurs.

    keys    (m,) increasing
    counts  (m,)
    """

    keys: Ints
    counts: Ints

    @classmethod
    def of(cls, keys: Ints) -> Self:
        return cls(*np.unique(keys, return_counts=True))

    def at(self, keys: Ints) -> Ints:
        """Return the count (n,) of each key (n,), 0 for a key that does not occur."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        found: Ints = np.where(self.keys[places] == keys, self.counts[places], 0)
        return found


def mean_and_highest(rows: Ints, values: Floats, length: int) -> Floats:
    """Return the mean and the highest value of each row (length, 2); NaN for a row without values.

    rows  (m,) non-decreasing: the row of each value (m,). A row's sum adds its values in their order
    """
    result = np.full((length, 2), np.nan)
    if len(rows):
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        counts = np.diff(np.r_[first, len(rows)])
        held = rows[first]
        result[held, 0] = np.bincount(rows, weights=values, minlength=length)[held] / counts
        result[held, 1] = np.maximum.reduceat(values, first)
    return result
