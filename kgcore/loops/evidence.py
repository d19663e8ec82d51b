"""Loops of evidence, compiled by Numba for the CPU: bounds of sums of decision trees for all pairs of a tile; look-ups.

kgcore/combiners/forest.py prepares the bounds, whose plain form is LightGBM's `predict`. kgcore/evidence/lookup.py
looks up integer keys.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numba.cpython.unsafe import numbers

from kgcore.loops.compiled import Array, exact_loop, exact_part

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Leaves = npt.NDArray[np.unsignedinteger[Any]]
Ints = npt.NDArray[np.int64]

BLOCK = 1024  # values whose codes are counted at a time
LINE = 64  # bytes of a line of the cache
MIXER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Knuth, The Art of Computer Programming, volume 3, 6.4
trailing_zeros = cast(Callable[[Any], int], numbers.trailing_zeros)


@exact_loop
def fill_codes(values: Array, thresholds: Array, codes: Codes) -> None:
    """Fill codes (n,) with the number of thresholds (t,) below each value (n,); t + 1 for NaN."""
    counts = np.empty(BLOCK, np.int32)
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        for place in range(len(block)):
            counts[place] = len(thresholds) + 1 if block[place] != block[place] else 0
        for threshold in thresholds:
            for place in range(len(block)):
                counts[place] += block[place] > threshold
        for place in range(len(block)):
            codes[start + place] = counts[place]


@exact_loop
def fill_shares(cohorts: Floats, low: Floats, high: Floats, low_shares: Array, high_shares: Array) -> None:
    """Fill shares (n, m) with the share of row i of cohorts (n, c), ascending, above a value; equal ones: a half.

    low, high    (n, m) values, low <= high
    low_shares   of `high`; high_shares: of `low`
    """
    size, counts = cohorts.shape[1], np.empty(low.shape[1], np.int64)
    for i in range(len(cohorts)):
        cohort, values = cohorts[i], low[i]
        counts[:] = 0
        for member in cohort:
            for j in range(len(counts)):
                counts[j] += member < values[j]
        for j in range(len(counts)):
            below = counts[j]
            for value, shares in ((low[i, j], high_shares), (high[i, j], low_shares)):
                while below < size and cohort[below] < value:
                    below += 1
                above = below
                while above < size and cohort[above] == value:
                    above += 1
                shares[i, j] = ((size - above) + (above - below) / 2) / size


@exact_part
def _sums(left: Leaves, values: Floats) -> tuple[float, float]:
    """Return the sums of the smallest value, and of the largest value, of the leaves that each tree has left."""
    least, most, one = 0.0, 0.0, left.dtype.type(1)
    for tree in range(len(values)):
        rest = left[tree]
        value = values[tree, trailing_zeros(rest)]
        smallest, largest = value, value
        rest &= rest - one
        while rest != 0:
            value = values[tree, trailing_zeros(rest)]
            smallest, largest = min(smallest, value), max(largest, value)
            rest &= rest - one
        least += smallest
        most += largest
    return least, most


@exact_loop
def fill_bounds(
    plain: npt.NDArray[np.bool_],
    subjects: Leaves,
    objects: Leaves,
    low_codes: Codes,
    high_codes: Codes,
    starts: Ints,
    dense: int,
    masks: Leaves,
    values: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Fill low and high (n, m) with the smallest and the largest sum that a pair's codes allow, from tree to tree.

    plain       (n, m) whether the columns after the first `dense` ones have their usual codes
    subjects    (2, n, w) leaves that the columns of the subject leave: of any pair, and of a plain pair. w: the number
                of trees, and then some to fill up a line of LINE bytes
    objects     (2, m, w) the same for the object
    low_codes   (columns, n, m) smallest codes; high_codes (h, n, m) largest codes of the first h columns. The others
                have one code
    starts      (columns,) the row of `masks` of each column's code 0
    masks       (codes, w) leaves that a code leaves
    values      (trees, 32) of the leaves
    """
    columns, wide = low_codes.shape[0], high_codes.shape[0]
    left = np.empty(masks.shape[1], masks.dtype)
    rows, words = masks.view(np.uint64), left.view(np.uint64)
    of_subjects, of_objects = subjects.view(np.uint64), objects.view(np.uint64)
    for i in range(plain.shape[0]):
        for j in range(plain.shape[1]):
            usual = 1 if plain[i, j] else 0
            for word in range(len(words)):
                words[word] = of_subjects[usual, i, word] & of_objects[usual, j, word]
            for column in range(dense if usual else columns):
                first = starts[column] + low_codes[column, i, j]
                if column < wide and high_codes[column, i, j] != low_codes[column, i, j]:
                    last = starts[column] + high_codes[column, i, j]
                    for word in range(len(words)):
                        several = rows[first, word]
                        for other in range(first + 1, last + 1):
                            several |= rows[other, word]
                        words[word] &= several
                else:
                    row = rows[first]
                    for word in range(len(words)):
                        words[word] &= row[word]
            low[i, j], high[i, j] = _sums(left, values)


@exact_part
def _hash(key: int, bits: int) -> Any:
    """Return the highest bits of the key times MIXER."""
    return (np.uint64(key) * MIXER) >> np.uint64(64 - bits)


@exact_loop
def mark_keys(keys: Ints, marks: npt.NDArray[np.uint64], bits: int) -> None:
    """Set the mark of the hash of each key (n,): one of the 2^bits bits of `marks`."""
    for key in keys:
        place = _hash(key, bits)
        marks[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@exact_loop
def find_keys(keys: Ints, marks: npt.NDArray[np.uint64], bits: int, wanted: Ints, rows: Ints, places: Ints) -> int:
    """Fill rows and places with the row of each wanted key (n,) that ascending keys have, and its place there.

    marks  2^bits bits: whether some key has this hash

    Return their number.
    """
    found = 0
    for row in range(len(wanted)):
        key = wanted[row]
        place = _hash(key, bits)
        if not (marks[place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
            continue
        first, length = 0, len(keys)
        while length > 0:
            half = length // 2
            if keys[first + half] < key:
                first += half + 1
                length -= half + 1
            else:
                length = half
        if first < len(keys) and keys[first] == key:
            rows[found], places[found] = row, first
            found += 1
    return found


@exact_loop
def fill_ranges(starts: Ints, lengths: Ints, rows: Ints, positions: Ints) -> None:
    """Fill rows and positions (sum of lengths,) with i and start_i, ..., start_i + length_i - 1 for every i."""
    place = 0
    for row in range(len(starts)):
        for position in range(starts[row], starts[row] + lengths[row]):
            rows[place], positions[place] = row, position
            place += 1
