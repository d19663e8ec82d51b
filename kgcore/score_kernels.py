"""Loops that score triples, compiled by Numba for the CPU: one pass over the rows of a triple instead of several."""

import numpy as np
from numba import njit

from kgcore.kernels import SUMS
from kgcore.prefetch import Array
from kgcore.row_kernels import MODULUS_PLUS


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def turned_distances(points: Array, turns: Array, others: Array, distances: Array) -> None:
    """Fill distances (n,) with sum_i |r_i s_i - o_i| of complex rows s, r and o (n, k), stored as (n, 2k).

    Real parts come first. It is the distance of `modulus` in kgcore/models/rotate.py.
    """
    half = points.shape[1] // 2
    for row in range(len(distances)):
        total = np.float32(0)
        for i in range(half):
            re, im, cos, sin = points[row, i], points[row, half + i], turns[row, i], turns[row, half + i]
            across = re * cos - im * sin - others[row, i]
            along = re * sin + im * cos - others[row, half + i]
            total += np.sqrt(across * across + along * along + MODULUS_PLUS)
        distances[row] = total
