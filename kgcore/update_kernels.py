"""Loops that update rows of a table by the gradients of their uses, compiled by Numba for the CPU.

The gradients of some rows are summed, and the optimiser updates these rows while the sums are in the cache. Parts
[start, stop) of the rows may run in several threads. The arguments of `row_gradients` have its names.
"""

import numpy as np
from numba import njit

from kgcore.kernels import SUMS, AdamConstants, adagrad_rows, adam_rows
from kgcore.prefetch import Array
from kgcore.row_kernels import Numbers, row_gradients

BLOCK = 64  # rows


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def adam_uses(
    kind: int, rows: Numbers, starts: Numbers, order: Numbers, dense: Array, queries: Array, scores: Array,
    gradient: Array, sizes: tuple[int, int], table: Array, first: Array, second: Array, constants: AdamConstants,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Update rows[start:stop] and their moments: see `adam_rows`."""
    sums = np.empty((BLOCK, table.shape[1]), np.float32)
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        row_gradients(kind, table, rows, starts, order, dense, queries, scores, gradient, sizes, sums, begin, end)
        adam_rows(table, first, second, rows, sums, constants, begin, end)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def adagrad_uses(
    kind: int, rows: Numbers, starts: Numbers, order: Numbers, dense: Array, queries: Array, scores: Array,
    gradient: Array, sizes: tuple[int, int], table: Array, squares: Array, rate: float, epsilon: float, start: int,
    stop: int,
) -> None:  # fmt: skip
    """Update rows[start:stop] and their sums of squares: see `adagrad_rows`."""
    sums = np.empty((BLOCK, table.shape[1]), np.float32)
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        row_gradients(kind, table, rows, starts, order, dense, queries, scores, gradient, sizes, sums, begin, end)
        adagrad_rows(table, squares, rows, sums, rate, epsilon, begin, end)
