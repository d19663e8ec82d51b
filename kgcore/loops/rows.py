"""Loops of training over rows of a table that are read where they are.

If every positive has its own corruptions, a step reads as many rows as it has corruptions, and copies of them cost more
than all arithmetic. These loops compare each query with its own rows of the table itself, and sum the gradients of
equal rows without a sort. Each part [start, stop) of a loop writes its own results, so parts may run in several
threads, and the result does not depend on their number. `Comparator.outer` is the plain form of the comparisons.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kgcore.loops.compiled import Array, exact_loop, loop, part
from kgcore.loops.prefetch import AHEAD, prefetch

L1, L2, MODULUS, DOT = 0, 1, 2, 3  # sum_i |x_i|, its Euclidean form, its form for complex numbers, and dot products
MODULUS_PLUS = np.float32(1e-12)  # as in kgcore/models/rotate.py

ZERO, ONE = np.float32(0), np.float32(1)

Numbers = npt.NDArray[np.int64]


@part
def pair_score(kind: int, queries: Array, i: int, table: Array, row: int) -> Any:
    """Return the score of query i and a row."""
    total, width, half = np.float32(0), table.shape[1], table.shape[1] // 2
    if kind == DOT:
        for j in range(width):
            total += queries[i, j] * table[row, j]
        return total
    if kind == L1:
        for j in range(width):
            total += abs(queries[i, j] - table[row, j])
        return -total
    if kind == L2:
        for j in range(width):
            difference = queries[i, j] - table[row, j]
            total += difference * difference
        return -np.sqrt(total)
    for j in range(half):
        re, im = queries[i, j] - table[row, j], queries[i, half + j] - table[row, half + j]
        total += np.sqrt(re * re + im * im + MODULUS_PLUS)
    return -total


@part
def add_gradient(
    kind: int, g: Any, score: Any, points: Array, i: int, others: Array, other: int, sums: Array, place: int
) -> None:
    """Add g times the gradient of the score of points[i] and others[other] with respect to points[i] to sums[place]."""
    width, half = points.shape[1], points.shape[1] // 2
    if kind == DOT:
        for j in range(width):
            sums[place, j] += g * others[other, j]
    elif kind == L1:
        for j in range(width):
            difference = others[other, j] - points[i, j]
            sums[place, j] += g * math.copysign(ONE, difference) if difference != ZERO else ZERO
    elif kind == L2:
        scale = -g / score if score != ZERO else ZERO
        for j in range(width):
            sums[place, j] += scale * (others[other, j] - points[i, j])
    else:
        for j in range(half):
            re, im = others[other, j] - points[i, j], others[other, half + j] - points[i, half + j]
            scale = g / np.sqrt(re * re + im * im + MODULUS_PLUS)
            sums[place, j] += scale * re
            sums[place, half + j] += scale * im


@loop
def row_scores(kind: int, queries: Array, table: Array, ids: Numbers, scores: Array, start: int, stop: int) -> None:
    """Fill scores (b, n) of queries [start, stop) of (b, d) with those of their rows ids (b, n) of a table."""
    size, every = ids.shape[1], ids.ravel()
    last = stop * size - AHEAD
    for i in range(start, stop):
        for j in range(size):
            if i * size + j < last:
                prefetch(table, every[i * size + j + AHEAD])
            scores[i, j] = pair_score(kind, queries, i, table, ids[i, j])


@loop
def query_gradients(
    kind: int, queries: Array, table: Array, ids: Numbers, scores: Array, gradient: Array, sums: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Fill sums (stop - start or more, d) with the gradients of queries [start, stop) of (b, d).

    scores, gradient  (b, n) the scores, and the gradient of the loss with respect to them
    """
    size, every = ids.shape[1], ids.ravel()
    last = stop * size - AHEAD
    for i in range(start, stop):
        for column in range(queries.shape[1]):
            sums[i - start, column] = ZERO
        for j in range(size):
            if i * size + j < last:
                prefetch(table, every[i * size + j + AHEAD])
            if gradient[i, j] != ZERO:
                add_gradient(kind, gradient[i, j], scores[i, j], queries, i, table, ids[i, j], sums, i - start)


@part
def row_gradients(
    kind: int, table: Array, rows: Numbers, starts: Numbers, order: Numbers, dense: Array,
    queries: Array, scores: Array, gradient: Array, sizes: tuple[int, int], sums: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill sums (stop - start or more, d) with the gradients of rows[start:stop] of a table.

    starts, order  the uses of the i-th row are order[starts[i]:starts[i + 1]]. Uses count first the rows of `dense`,
                   then the corruptions of the first side, then those of the second side
    dense          (u, d) gradients of the first u uses
    queries        (q, d) the queries of the first side, then those of the second side
    scores, gradient  flat: (b, n) scores of the first side, then (q - b, m) of the second, and the gradient of the loss
                   with respect to them
    sizes          b, n
    """
    width, first, (b, n) = table.shape[1], len(dense), sizes
    m = (len(scores) - b * n) // max(1, len(queries) - b)
    for place in range(start, stop):
        row, out = rows[place], place - start
        if kind != DOT and place + AHEAD < stop:
            prefetch(table, rows[place + AHEAD])
        for column in range(width):
            sums[out, column] = ZERO
        for number in range(starts[place], starts[place + 1]):
            use = order[number]
            if use < first:
                for column in range(width):
                    sums[out, column] += dense[use, column]
                continue
            use -= first
            g = gradient[use]
            if g != ZERO:
                query = use // n if use < b * n else b + (use - b * n) // m
                add_gradient(kind, g, scores[use], table, row, queries, query, sums, out)


@exact_loop
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


@exact_loop
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
