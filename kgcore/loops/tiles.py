"""Distances of many queries to the columns of a tile, compiled by Numba for the CPU: see kgcore/models/tiles.py.

Each loop is that of one distance. It fills found (q, c) from queries (q, d) and columns (d, c), float32. The
inner loop runs over the columns, so that the compiler uses vectors without adding up in another order: a column has the
same bits wherever it stands in a tile. The plain form of a loop is the distance itself.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kgcore.loops.compiled import Array, exact_loop, exact_part

TileKernel = Callable[[Array, Array, Array], None]


@exact_loop
def l1_tile(queries: Array, columns: Array, found: Array) -> None:
    """Fill `found` with sum_i |q_i - e_i|, added up from the first term to the last one, four terms at a time."""
    width = queries.shape[1]
    for row in range(queries.shape[0]):
        found[row] = 0
        for i in range(0, width - 3, 4):
            a, b, c, d = queries[row, i], queries[row, i + 1], queries[row, i + 2], queries[row, i + 3]
            for j in range(columns.shape[1]):
                near = found[row, j] + abs(a - columns[i, j]) + abs(b - columns[i + 1, j])
                found[row, j] = near + abs(c - columns[i + 2, j]) + abs(d - columns[i + 3, j])
        for i in range(width // 4 * 4, width):
            a = queries[row, i]
            for j in range(columns.shape[1]):
                found[row, j] += abs(a - columns[i, j])


@exact_loop
def l2_tile(queries: Array, columns: Array, found: Array) -> None:
    """Fill `found` with sqrt(sum_i (q_i - e_i)^2 + 1e-12), four terms at a time."""
    width, tiny = queries.shape[1], np.float32(1e-12)
    for row in range(queries.shape[0]):
        found[row] = tiny
        for i in range(0, width - 3, 4):
            a, b, c, d = queries[row, i], queries[row, i + 1], queries[row, i + 2], queries[row, i + 3]
            for j in range(columns.shape[1]):
                w, x = a - columns[i, j], b - columns[i + 1, j]
                y, z = c - columns[i + 2, j], d - columns[i + 3, j]
                found[row, j] += (w * w + x * x) + (y * y + z * z)
        for i in range(width // 4 * 4, width):
            a = queries[row, i]
            for j in range(columns.shape[1]):
                x = a - columns[i, j]
                found[row, j] += x * x
        for j in range(columns.shape[1]):
            found[row, j] = np.sqrt(found[row, j])


@exact_loop
def modulus_tile(queries: Array, columns: Array, found: Array) -> None:
    """Fill `found` with sum_i |q_i - e_i| of complex numbers. The first half of the d numbers are the real parts."""
    half, tiny = queries.shape[1] // 2, np.float32(1e-12)
    for row in range(queries.shape[0]):
        found[row] = 0
        for i in range(half):
            a, b = queries[row, i], queries[row, i + half]
            for j in range(columns.shape[1]):
                x, y = a - columns[i, j], b - columns[i + half, j]
                found[row, j] += np.sqrt(x * x + y * y + tiny)


@exact_part
def _around(difference: np.float32) -> Any:
    """Return twice the signed distance on a circle of length 1, in [-1, 1]."""
    return np.float32(2) * (difference - np.floor(difference + np.float32(0.5)))


@exact_loop
def torus1_tile(queries: Array, columns: Array, found: Array) -> None:
    """Fill `found` with sum_i 2 d_i, where d_i in [0, 1/2] is the distance of q_i and e_i on a circle of length 1."""
    for row in range(queries.shape[0]):
        found[row] = 0
        for i in range(queries.shape[1]):
            a = queries[row, i]
            for j in range(columns.shape[1]):
                found[row, j] += abs(_around(a - columns[i, j]))


@exact_loop
def torus2_tile(queries: Array, columns: Array, found: Array) -> None:
    """Fill `found` with sum_i (2 d_i)^2, where d_i is that of `torus1_tile`."""
    for row in range(queries.shape[0]):
        found[row] = 0
        for i in range(queries.shape[1]):
            a = queries[row, i]
            for j in range(columns.shape[1]):
                x = _around(a - columns[i, j])
                found[row, j] += x * x
