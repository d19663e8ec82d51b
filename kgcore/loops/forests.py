"""Bounds of sums of decision trees for all pairs of a tile, compiled by Numba for the CPU: see kgcore/combiners/forest.py.

The plain form is `Trees.sums` in kgcore/combiners/trees.py.
"""

import numpy as np
import numpy.typing as npt
from numba.cpython.unsafe.numbers import trailing_zeros

from kgcore.loops.compiled import Array, exact_loop

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@exact_loop
def fill_codes(values: Array, thresholds: Floats, codes: Codes) -> None:
    """Fill codes (n,) with the number of ascending thresholds (t,) below each value (n,); t + 1 for NaN."""
    count = len(thresholds)
    for place in range(len(values)):
        value = np.float64(values[place])
        if value != value:
            codes[place] = count + 1
            continue
        first, length = 0, count
        while length > 0:
            half = length // 2
            if thresholds[first + half] < value:
                first += half + 1
                length -= half + 1
            else:
                length = half
        codes[place] = first


@exact_loop
def fill_shares(cohorts: Floats, values: Floats, shares: Floats) -> None:
    """Fill shares (n, m) with the share of row i of cohorts (n, c), ascending, above values (n, m); equal: a half."""
    size = cohorts.shape[1]
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            value, below = values[i, j], 0
            first, length = 0, size
            while length > 0:
                half = length // 2
                if cohorts[i, first + half] < value:
                    first += half + 1
                    length -= half + 1
                else:
                    length = half
            below = first
            while first < size and cohorts[i, first] == value:
                first += 1
            shares[i, j] = ((size - first) + (first - below) / 2) / size


@exact_loop
def fill_bounds(
    plain: npt.NDArray[np.bool_],
    subjects: Masks,
    objects: Masks,
    low_codes: Codes,
    high_codes: Codes,
    starts: Places,
    dense: int,
    masks: Masks,
    values: Floats,
    start: float,
    low: Floats,
    high: Floats,
) -> None:
    """Fill low and high (n, m) with the smallest and the largest sum that a pair's codes allow, from tree to tree.

    plain       (n, m) whether the columns after the first `dense` ones have their usual codes
    subjects    (2, n, trees) leaves that the columns of the subject leave: of any pair, and of a plain pair
    objects     (2, m, trees) the same for the object
    low_codes   (columns, n, m) smallest codes; high_codes (h, n, m) largest codes of the first h columns. The others
                have one code
    starts      (columns,) the row of `masks` of each column's code 0
    masks       (codes, trees) leaves that a code leaves
    values      (trees, 32) of the leaves
    """
    trees, columns, wide = masks.shape[1], low_codes.shape[0], high_codes.shape[0]
    left, several = np.empty(trees, np.uint32), np.empty(trees, np.uint32)
    for i in range(plain.shape[0]):
        for j in range(plain.shape[1]):
            usual = 1 if plain[i, j] else 0
            for tree in range(trees):
                left[tree] = subjects[usual, i, tree] & objects[usual, j, tree]
            for column in range(dense if usual else columns):
                row = starts[column] + low_codes[column, i, j]
                more = high_codes[column, i, j] - low_codes[column, i, j] if column < wide else 0
                if more == 0:
                    for tree in range(trees):
                        left[tree] &= masks[row, tree]
                    continue
                for tree in range(trees):
                    several[tree] = masks[row, tree]
                for other in range(row + 1, row + more + 1):
                    for tree in range(trees):
                        several[tree] |= masks[other, tree]
                for tree in range(trees):
                    left[tree] &= several[tree]
            least, most = start, start
            for tree in range(trees):
                rest = left[tree]
                value = values[tree, trailing_zeros(rest)]
                smallest, largest = value, value
                rest &= rest - np.uint32(1)
                while rest != 0:
                    value = values[tree, trailing_zeros(rest)]
                    smallest, largest = min(smallest, value), max(largest, value)
                    rest &= rest - np.uint32(1)
                least += smallest
                most += largest
            low[i, j], high[i, j] = least, most
