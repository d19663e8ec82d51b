"""Loops that score triples, compiled by Numba for the CPU: one pass over the rows of a triple instead of several.

A model's formula stays one expression in its file: that is the plain form of its loop, and a test compares the two.
All rows are complex numbers (n, k), stored as (n, 2k) real numbers, real parts first.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from kgcore.loops.compiled import Array, fits_cpu_loops, loop
from kgcore.loops.rows import MODULUS_PLUS

ScoreLoop = Callable[[Array, Array, Array, Array], None]


def fits_loop(subjects: Tensor, predicates: Tensor, objects: Tensor) -> bool:
    """Return whether the loops can score these rows. They pass no gradient."""
    same = subjects.dim() == 2 and subjects.shape == predicates.shape == objects.shape
    return same and not torch.is_grad_enabled() and fits_cpu_loops(subjects, predicates, objects)


def scored_by(loop: ScoreLoop, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
    """Return what a loop computes for the rows of each triple: (n, 2k) three times -> (n,)."""
    found = subjects.new_empty(len(subjects))
    s, p, o = (rows.contiguous().numpy() for rows in (subjects, predicates, objects))
    loop(s, p, o, found.numpy())
    return found


@loop
def complex_products(subjects: Array, predicates: Array, objects: Array, found: Array) -> None:
    """Fill found (n,) with Re(sum_i r_i s_i conj(o_i)): see kgcore/models/complex.py."""
    k = subjects.shape[1] // 2
    for row in range(len(found)):
        total = np.float32(0)
        for i in range(k):
            re, im, r_re, r_im = subjects[row, i], subjects[row, k + i], predicates[row, i], predicates[row, k + i]
            total += (re * r_re - im * r_im) * objects[row, i] + (re * r_im + im * r_re) * objects[row, k + i]
        found[row] = total


@loop
def turned_distances(subjects: Array, turns: Array, objects: Array, found: Array) -> None:
    """Fill found (n,) with sum_i |r_i s_i - o_i|: see `modulus` in kgcore/models/rotate.py."""
    k = subjects.shape[1] // 2
    for row in range(len(found)):
        total = np.float32(0)
        for i in range(k):
            re, im, cos, sin = subjects[row, i], subjects[row, k + i], turns[row, i], turns[row, k + i]
            across = re * cos - im * sin - objects[row, i]
            along = re * sin + im * cos - objects[row, k + i]
            total += np.sqrt(across * across + along * along + MODULUS_PLUS)
        found[row] = total
