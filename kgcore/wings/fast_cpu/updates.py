"""Loops that update rows of a table: optimisers, and the sums of the gradients that they need.

The gradients of equal rows are found by counting, without a sort. They are summed for some rows, and the optimiser
updates these rows while the sums are in the cache. Parts [start, stop) of the rows may run in several threads.
`kgcore/embed/optimisers` has the plain form of each optimiser.
"""

import numpy as np
import numpy.typing as npt

from kgcore.loops.compiled import AHEAD, Array, exact_loop, loop, part, prefetch
from kgcore.wings.fast_cpu.comparisons import DOT, ZERO, Numbers, add_gradient

BLOCK = 64  # rows

# beta1, beta2, 1 - beta2^t, learning rate / (1 - beta1^t), epsilon
AdamConstants = tuple[float, float, float, float, float]


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


@loop
def adam_rows(
    table: Array, first: Array, second: Array, rows: Numbers, gradient: Array, constants: AdamConstants, start: int,
    stop: int,
) -> None:  # fmt: skip
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
