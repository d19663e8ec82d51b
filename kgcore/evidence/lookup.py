"""Tables of integer keys, and sums over the entries of rows. Every look-up is vectorised; nothing depends on blocks."""

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Bools, Floats, Ints

if TYPE_CHECKING:  # scipy is loaded when it computes
    from scipy.sparse import csc_array, csr_array


@dataclass(frozen=True)
class KeyTable:
    """Distinct integer keys in ascending order. `find` returns the place of a key.

    keys    (N,) ascending
    marks   (2^bits,) whether some key has this hash. A look-up searches only for keys whose hash is marked, because a
            binary search costs twenty times as much as a hash
    """

    keys: Ints
    marks: Bools

    @classmethod
    def of(cls, keys: Ints) -> Self:
        """Build the table of ascending distinct keys. Memory: 8 bytes and 8 to 16 marks a key."""
        bits = max(4, len(keys).bit_length() + 3)
        marks = np.zeros(2**bits, dtype=bool)
        _loops().mark_keys(np.ascontiguousarray(keys), marks, bits)
        return cls(keys, marks)

    def find(self, keys: Ints) -> tuple[Ints, Ints]:
        """Find keys (n,). Return the rows of those that the table has, ascending, and their places in the table."""
        rows, places = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int64)
        bits = len(self.marks).bit_length() - 1
        found = _loops().find_keys(self.keys, self.marks, bits, np.ascontiguousarray(keys), rows, places)
        return rows[:found].copy(), places[:found].copy()


def _loops() -> ModuleType:
    """Return the compiled loops. Numba and torch, which they load, take more than a second."""
    from kgcore.loops import lookups

    return lookups


@dataclass(frozen=True)
class Counts:
    """How often each key occurs.

    table   the keys
    counts  (N,) how often each of them occurs
    """

    table: KeyTable
    counts: Ints

    @classmethod
    def of(cls, keys: Ints) -> Self:
        """Count keys (n,), in any order."""
        found, counts = np.unique(keys, return_counts=True)
        return cls(KeyTable.of(found), counts)

    @classmethod
    def of_matrix(cls, matrix: "csc_array | csr_array") -> Self:
        """Read counts from a matrix (n, m): the key of row i and column j is i m + j."""
        entries = matrix.tocoo()
        keys = entries.row.astype(np.int64) * entries.shape[1] + entries.col
        order = np.argsort(keys)
        return cls(KeyTable.of(keys[order]), entries.data[order].astype(np.int64))

    def __call__(self, keys: Ints) -> Ints:
        """Return how often each of the keys (n,) occurs: 0 for an unknown key."""
        result = np.zeros(len(keys), dtype=np.int64)
        rows, places = self.table.find(keys)
        result[rows] = self.counts[places]
        return result


def expanded(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """List the positions start_i, ..., start_i + length_i - 1 for every i. Return i, ascending, and the position."""
    total = int(lengths.sum())
    rows, positions = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    _loops().fill_ranges(np.ascontiguousarray(starts), np.ascontiguousarray(lengths), rows, positions)
    return rows, positions


def ones_at(rows: Ints, columns: Ints, shape: tuple[int, int]) -> "csr_array":
    """Return the matrix with 1 at places (k,) of rows (k,), and 0 elsewhere."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)


def row_sums(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the sum (count,) of the values of each row, added one after the other; 0 without values."""
    sums = np.bincount(rows, weights=values, minlength=count)
    return sums.astype(np.float64)  # without rows, NumPy counts in integers


def row_maxima(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the maximum (count,) of the values of each row; 0 without values. The rows ascend."""
    result: Floats = np.zeros(count)
    if len(rows):
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        result[rows[first]] = np.maximum.reduceat(values, first)
    return result


def best_and_any(rows: Ints, confidences: Floats, count: int) -> tuple[Floats, Floats]:
    """Combine confidences in [0, 1) by row: the maximum, and the noisy-or 1 - prod (1 - c). Both 0 without entries."""
    return row_maxima(rows, confidences, count), -np.expm1(row_sums(rows, np.log1p(-confidences), count))


def mean_and_highest(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the mean and the highest value of each row (count, 2); NaN without values. The rows ascend."""
    numbers = np.bincount(rows, minlength=count)
    result = np.full((count, 2), np.nan)
    held = numbers > 0
    if len(rows):
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        result[held, 0] = row_sums(rows, values, count)[held] / numbers[held]
        result[held, 1] = np.maximum.reduceat(values, first)
    return result
