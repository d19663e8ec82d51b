"""Loops that score triples: one pass over the rows of a triple instead of several.

A model's formula stays one expression in its file: that is the plain form of its loop, and a test compares the two.
All rows are complex numbers (n, k), stored as (n, 2k) real numbers, real parts first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgcore.loops.compiled import Array, fits_cpu_loops, loop
from kgcore.wings.fast_cpu.comparisons import MODULUS_PLUS

ScoreLoop = Callable[..., None]


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


def turns(phases: Tensor) -> Tensor:
    """Return the rotations exp(i phase) of phases (n, k): (n, 2k)."""
    return torch.cat([phases.cos(), phases.sin()], -1)


class FastScores:
    """The scores of triples by a loop.

    loop        fills the scores, up to `factor`, from the rows of subjects, predicates and objects
    predicates  the table of predicates, as the loop needs it
    """

    def __init__(self, loop: ScoreLoop, factor: float, entities: Tensor, predicates: Tensor) -> None:
        self._loop, self._factor, self._entities, self._predicates = loop, factor, entities, predicates

    def __call__(self, triples: Tensor) -> Tensor:
        """Return the scores (n,) of triples (n, 3)."""
        s, p, o = triples.unbind(1)
        tables = (self._entities, self._predicates, self._entities)
        rows = [table.index_select(0, ids).numpy() for table, ids in zip(tables, (s, p, o), strict=True)]
        scores = self._entities.new_empty(len(triples))
        self._loop(*rows, scores.numpy())
        return scores * self._factor


def fast_scores(name: str, model: Any, entities: Tensor, predicates: Tensor) -> FastScores | None:
    """Return the scores of a registered model by its loop; None: the model or the device has no loop."""
    if not fits_cpu_loops(entities, predicates):
        return None
    if name in ("complex", "hole_complex"):
        return FastScores(complex_products, model.factor, entities, predicates)
    if name == "rotate" and model.comparator.name == "modulus":
        return FastScores(turned_distances, -1.0, entities, turns(predicates))
    return None
