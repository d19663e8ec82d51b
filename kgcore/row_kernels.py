"""Loops of training over rows of a table that are read where they are, compiled by Numba for the CPU.

If every positive has its own corruptions, a step reads as many rows as it has corruptions, and copies of them cost more
than all arithmetic. These loops compare queries with rows of the table itself, and sum the gradients of equal rows
without a sort. Each part [start, stop) of a loop writes its own results, so parts may run in several threads, and the
result does not depend on their number. `kgcore/models/rows.py` has the plain form of the comparisons.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from kgcore.kernels import SUMS
from kgcore.prefetch import AHEAD, Array, prefetch

L1, L2, MODULUS, DOT = 0, 1, 2, 3  # sum_i |x_i|, its Euclidean form, its form for complex numbers, and dot products
MODULUS_PLUS = np.float32(1e-12)  # as in kgcore/models/rotate.py

Numbers = npt.NDArray[np.int64]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy", inline="always")
def _score(kind: int, queries: Array, block: int, i: int, table: Array, row: int) -> Any:
    """Return the score of a query and a row."""
    total, width = np.float32(0), queries.shape[2]
    if kind == DOT:
        for column in range(width):
            total += queries[block, i, column] * table[row, column]
        return total
    if kind == L1:
        for column in range(width):
            total += abs(queries[block, i, column] - table[row, column])
        return -total
    if kind == L2:
        for column in range(width):
            difference = queries[block, i, column] - table[row, column]
            total += difference * difference
        return -np.sqrt(total)
    half = width // 2
    for column in range(half):
        re = queries[block, i, column] - table[row, column]
        im = queries[block, i, column + half] - table[row, column + half]
        total += np.sqrt(re * re + im * im + MODULUS_PLUS)
    return -total


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy", inline="always")
def _add(
    kind: int, g: np.float32, score: np.float32, queries: Array, block: int, i: int, table: Array, row: int,
    sums: Array, place: int,
) -> None:  # fmt: skip
    """Add g times the gradient of a distance's score with respect to the row: its negative is that of the query."""
    zero, width = np.float32(0), queries.shape[2]
    if kind == L1:
        for column in range(width):
            difference = queries[block, i, column] - table[row, column]
            sums[place, column] += g if difference > zero else (-g if difference < zero else zero)
    elif kind == L2:
        if score != zero:
            scale = -g / score
            for column in range(width):
                sums[place, column] += scale * (queries[block, i, column] - table[row, column])
    elif kind == MODULUS:
        half = width // 2
        for column in range(half):
            re = queries[block, i, column] - table[row, column]
            im = queries[block, i, column + half] - table[row, column + half]
            scale = g / np.sqrt(re * re + im * im + MODULUS_PLUS)
            sums[place, column] += scale * re
            sums[place, column + half] += scale * im


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def row_scores(kind: int, queries: Array, table: Array, ids: Numbers, scores: Array, start: int, stop: int) -> None:
    """Fill scores (b, c, n) of blocks [start, stop) with those of queries (b, c, d) and rows ids (b, n) of a table."""
    size, every = ids.shape[1], ids.ravel()
    last = stop * size - AHEAD
    for block in range(start, stop):
        for i in range(queries.shape[1]):
            for j in range(size):
                if i == 0 and block * size + j < last:
                    prefetch(table, every[block * size + j + AHEAD])
                scores[block, i, j] = _score(kind, queries, block, i, table, ids[block, j])


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def query_gradients(
    kind: int, queries: Array, table: Array, ids: Numbers, scores: Array, gradient: Array, sums: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Fill sums (b c, d) with the gradients of the queries of blocks [start, stop).

    scores, gradient  (b, c, n) the scores, and the gradient of the loss with respect to them
    """
    count, width, size, every = queries.shape[1], queries.shape[2], ids.shape[1], ids.ravel()
    last = stop * size - AHEAD
    for block in range(start, stop):
        for i in range(count):
            place = block * count + i
            for column in range(width):
                sums[place, column] = np.float32(0)
            for j in range(size):
                if i == 0 and block * size + j < last:
                    prefetch(table, every[block * size + j + AHEAD])
                g, row = gradient[block, i, j], ids[block, j]
                if g == np.float32(0):
                    continue
                if kind == DOT:
                    for column in range(width):
                        sums[place, column] += g * table[row, column]
                else:
                    _add(kind, -g, scores[block, i, j], queries, block, i, table, row, sums, place)


@njit(cache=True, nogil=True)
def _of_use(use: int, sizes: tuple[int, int, int], queries: int, scores: int) -> tuple[int, int, int]:
    """Return the size n of the side of a corruption, and where its first query and its first score are."""
    count, size, first_queries = sizes
    query, at, first_uses = 0, 0, first_queries // count * size
    if use >= first_uses:
        use, query, at = use - first_uses, first_queries, first_queries * size
        size = (scores - at) // (queries - first_queries)
    block = use // size
    return size, query + block * count, at + block * count * size + use - block * size


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def row_gradients(
    kind: int, table: Array, rows: Numbers, starts: Numbers, order: Numbers, dense: Array,
    queries: Array, scores: Array, gradient: Array, sizes: tuple[int, int, int],
    sums: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill sums (stop - start, d) with the gradients of rows[start:stop] of a table.

    starts, order  the uses of the i-th row are order[starts[i]:starts[i + 1]]. Uses count first the rows of `dense`,
                   then the corruptions of the first side, then those of the second side
    dense          (u, d) gradients of the first u uses
    queries        (q, d) the queries of the first side, then those of the second side
    scores, gradient  flat: (b, c, n) scores of the first side, then (b, c, m) of the second, and the gradient of the
                   loss with respect to them
    sizes          c, n, b c
    """
    zero, width, half, first, count = np.float32(0), table.shape[1], table.shape[1] // 2, len(dense), sizes[0]
    for place in range(start, stop):
        row, out = rows[place], place - start
        if kind != DOT and place + AHEAD < stop:
            prefetch(table, rows[place + AHEAD])
        for column in range(width):
            sums[out, column] = zero
        for number in range(starts[place], starts[place + 1]):
            use = order[number]
            if use < first:
                for column in range(width):
                    sums[out, column] += dense[use, column]
                continue
            size, query, at = _of_use(use - first, sizes, len(queries), len(gradient))
            for i in range(count):
                g = gradient[at + i * size]
                if g == zero:
                    continue
                if kind == DOT:
                    for column in range(width):
                        sums[out, column] += g * queries[query + i, column]
                elif kind == L1:
                    for column in range(width):
                        difference = queries[query + i, column] - table[row, column]
                        signed = g if difference > zero else (-g if difference < zero else zero)
                        sums[out, column] += signed
                elif kind == L2:
                    score = scores[at + i * size]
                    scale = -g / score if score != zero else zero
                    for column in range(width):
                        sums[out, column] += scale * (queries[query + i, column] - table[row, column])
                else:
                    for column in range(half):
                        re = queries[query + i, column] - table[row, column]
                        im = queries[query + i, column + half] - table[row, column + half]
                        scale = g / np.sqrt(re * re + im * im + MODULUS_PLUS)
                        sums[out, column] += scale * re
                        sums[out, column + half] += scale * im


@njit(cache=True, nogil=True)
def distinct(ids: Numbers, slots: npt.NDArray[np.int32], rows: Numbers) -> int:
    """Write the distinct ids (n,) into rows (n,), in the order of their first place. Return how many there are.

    slots  -1 for every possible id; changed at these ids: `places_by_row` sets them to -1 again
    """
    count = 0
    for number in ids:
        if slots[number] < 0:
            slots[number] = 0
            rows[count] = number
            count += 1
    return count


@njit(cache=True, nogil=True)
def places_by_row(ids: Numbers, slots: npt.NDArray[np.int32], rows: Numbers, starts: Numbers, order: Numbers) -> None:
    """Find the places of each distinct id, by counting.

    rows    (r,) the distinct ids
    starts  (r + 1,), order (n,): the places of the i-th row are order[starts[i]:starts[i + 1]], in ascending order
    """
    for slot in range(len(rows)):
        slots[rows[slot]] = slot
        starts[slot] = 0
    for number in ids:
        starts[slots[number]] += 1
    total = 0
    for slot in range(len(rows)):  # the first place of each row, which moves on when a place is taken
        total, starts[slot] = total + starts[slot], total
    for place in range(len(ids)):
        slot = slots[ids[place]]
        order[starts[slot]] = place
        starts[slot] += 1
    for slot in range(len(rows) - 1, -1, -1):
        starts[slot + 1] = starts[slot]
        slots[rows[slot]] = -1
    starts[0] = 0
