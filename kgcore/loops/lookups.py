"""Look-ups of integer keys, compiled by Numba for the CPU: see kgcore/evidence/lookup.py."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kgcore.loops.compiled import exact_loop, exact_part

Ints = npt.NDArray[np.int64]
MIXER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Knuth, The Art of Computer Programming, volume 3, 6.4


@exact_part
def _hash(key: int, bits: int) -> Any:
    """Return the highest bits of the key times MIXER."""
    return (np.uint64(key) * MIXER) >> np.uint64(64 - bits)


@exact_loop
def mark_keys(keys: Ints, marks: npt.NDArray[np.bool_], bits: int) -> None:
    """Set the mark (2^bits,) of the hash of each key (n,)."""
    for key in keys:
        marks[_hash(key, bits)] = True


@exact_loop
def find_keys(keys: Ints, marks: npt.NDArray[np.bool_], bits: int, wanted: Ints, rows: Ints, places: Ints) -> int:
    """Fill rows and places with the row of each wanted key (n,) that ascending keys have, and its place there.

    marks  (2^bits,) whether some key has this hash

    Return their number.
    """
    found = 0
    for row in range(len(wanted)):
        key = wanted[row]
        if not marks[_hash(key, bits)]:
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
