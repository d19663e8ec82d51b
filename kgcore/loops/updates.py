"""Loops that update rows of a table: optimisers, and the sums of the gradients that they need.

The gradients of some rows are summed, and the optimiser updates these rows while the sums are in the cache. Parts
[start, stop) of the rows may run in several threads. `kgcore/optimisers` has the plain form of each optimiser.
"""

import numpy as np

from kgcore.loops.compiled import Array, loop
from kgcore.loops.prefetch import AHEAD, prefetch
from kgcore.loops.rows import Numbers, row_gradients

BLOCK = 64  # rows

# beta1, beta2, 1 - beta2^t, learning rate / (1 - beta1^t), epsilon
AdamConstants = tuple[float, float, float, float, float]


@loop
def adam_rows(
    table: Array,
    first: Array,
    second: Array,
    rows: Numbers,
    gradient: Array,
    constants: AdamConstants,
    start: int,
    stop: int,
) -> None:
    """Update rows[start:stop] of a table (n, d) and of its Adam moments in place: see `RowAdam`.

    rows      (r,) distinct indices
    gradient  (stop - start or more, d)
    """
    beta1, beta2, corrected, rate, epsilon = constants
    keep1, new1 = np.float32(beta1), np.float32(1 - beta1)
    keep2, new2 = np.float32(beta2), np.float32(1 - beta2)
    scale, size, tiny = np.float32(1 / corrected), np.float32(rate), np.float32(epsilon)
    for place in range(start, stop):
        row = rows[place]
        if place + AHEAD < len(rows):
            for array in (table, first, second):
                prefetch(array, rows[place + AHEAD])
        for column in range(table.shape[1]):
            g = gradient[place - start, column]
            m = keep1 * first[row, column] + new1 * g
            v = keep2 * second[row, column] + new2 * g * g
            first[row, column] = m
            second[row, column] = v
            table[row, column] -= size * m / (np.sqrt(v * scale) + tiny)


@loop
def adagrad_rows(
    table: Array, sums: Array, rows: Numbers, gradient: Array, rate: float, epsilon: float, start: int,
    stop: int,
) -> None:  # fmt: skip
    """Update rows[start:stop] of a table (n, d) and of its sums (n,) in place: see `RowAdagrad`.

    rows      (r,) distinct indices
    gradient  (stop - start or more, d)
    rate      learning rate
    """
    size, tiny, width = np.float32(rate), np.float32(epsilon), np.float32(table.shape[1])
    for place in range(start, stop):
        row = rows[place]
        total = np.float32(0)
        for column in range(table.shape[1]):
            total += gradient[place - start, column] * gradient[place - start, column]
        sums[row] += total / width
        factor = size / (np.sqrt(sums[row]) + tiny)
        for column in range(table.shape[1]):
            table[row, column] -= factor * gradient[place - start, column]


@loop
def adam_uses(
    kind: int, rows: Numbers, starts: Numbers, order: Numbers, dense: Array, queries: Array, scores: Array,
    gradient: Array, sizes: tuple[int, int], table: Array, first: Array, second: Array, constants: AdamConstants,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Update rows[start:stop] and their moments: see `adam_rows`.

    The other arguments are those of `row_gradients`.
    """
    sums = np.empty((BLOCK, table.shape[1]), np.float32)
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        row_gradients(kind, table, rows, starts, order, dense, queries, scores, gradient, sizes, sums, begin, end)
        adam_rows(table, first, second, rows, sums, constants, begin, end)


@loop
def adagrad_uses(
    kind: int, rows: Numbers, starts: Numbers, order: Numbers, dense: Array, queries: Array, scores: Array,
    gradient: Array, sizes: tuple[int, int], table: Array, squares: Array, rate: float, epsilon: float, start: int,
    stop: int,
) -> None:  # fmt: skip
    """Update rows[start:stop] and their sums of squares: see `adagrad_rows`.

    The other arguments are those of `row_gradients`.
    """
    sums = np.empty((BLOCK, table.shape[1]), np.float32)
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        row_gradients(kind, table, rows, starts, order, dense, queries, scores, gradient, sizes, sums, begin, end)
        adagrad_rows(table, squares, rows, sums, rate, epsilon, begin, end)
