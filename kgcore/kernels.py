"""Loops that PyTorch would do in several passes over memory, compiled by Numba for the CPU.

The compiled code is stored on disk (`__pycache__`, or NUMBA_CACHE_DIR), so only the first training on a machine waits
a few seconds for it. Every kernel has a plain form in PyTorch beside its caller, which other devices use and which the
tests compare it with. The kernels use one thread: they are limited by memory, and threads of PyTorch wait beside them.
"""

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor

from kgcore.prefetch import AHEAD, Array, prefetch

SUMS = {"reassoc", "contract", "arcp", "nsz"}  # sums in any order; NaN and infinity stay, so a diverged loss is seen

# beta1, beta2, 1 - beta2^t, learning rate / (1 - beta1^t), epsilon
AdamConstants = tuple[float, float, float, float, float]


def fits_kernel(*tensors: Tensor) -> bool:
    """Return whether the kernels can work on the tensors: float32 numbers on the CPU."""
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def adam_rows(
    table: Array,
    first: Array,
    second: Array,
    rows: npt.NDArray[np.int64],
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


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def adagrad_rows(
    table: Array, sums: Array, rows: npt.NDArray[np.int64], gradient: Array, rate: float, epsilon: float, start: int,
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
