"""A training step as one loop over its chunks, compiled by Numba for the CPU: scores, losses and their gradients.

All that a chunk needs stays in the processor's cache from its queries to the gradients of its rows. Each part of the
chunks [start, stop) writes its own results, so parts may run in several threads. Automatic differentiation of
`kgcore/training/objective.py` is the plain form.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from kgcore.arrays import Bools
from kgcore.chunk_kernels import l1_gradients, l1_scores, l2_gradients, l2_scores, l2_weights
from kgcore.kernels import SUMS
from kgcore.loss_kernels import loss_of
from kgcore.prefetch import AHEAD, Array, prefetch
from kgcore.query_kernels import fill_queries, pass_through
from kgcore.row_kernels import DOT, L1

ALONE = 2**18  # products of a matrix product that BLAS computes on the calling thread
Numbers = npt.NDArray[np.int64]
ZERO = np.float32(0)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _multiply(a: Any, b: Any, out: Array) -> None:
    """Fill out (n, m) with the matrix product of a and b: some rows at a time, so that BLAS starts no threads."""
    rows = max(1, ALONE // max(1, b.shape[0] * b.shape[1]))
    for first in range(0, len(a), rows):
        np.dot(a[first : first + rows], b, out[first : first + rows])


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _compare(kind: int, queries: Array, candidates: Array, scores: Array) -> None:
    """Fill the scores (1, c, n) of queries (1, c, d) and candidates (1, n, d)."""
    if kind == L1:
        l1_scores(queries, candidates, scores)
        return
    _multiply(queries[0], candidates[0].T, scores[0])
    if kind != DOT:
        l2_scores(queries, candidates, scores)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _differentiate(
    kind: int, queries: Array, candidates: Array, scores: Array, gradient: Array, of_queries: Array,
    of_candidates: Array,
) -> None:  # fmt: skip
    """Fill the gradients of queries and candidates from the gradient (1, c, n) of the scores."""
    if kind == L1:
        l1_gradients(queries, candidates, gradient, of_queries, of_candidates)
        return
    weights = gradient
    if kind != DOT:
        weights = np.empty_like(gradient)
        l2_weights(queries, candidates, scores, gradient, weights)
    _multiply(weights[0], candidates[0], of_queries[0])
    _multiply(np.ascontiguousarray(weights[0].T), queries[0], of_candidates[0])
    if kind != DOT:
        l2_gradients(queries, candidates, scores, gradient, weights, of_queries, of_candidates)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy", inline="always")
def _pair_score(kind: int, queries: Array, i: int, table: Array, row: int) -> Any:
    """Return the score of the object query queries[0, i] and a row."""
    total = ZERO
    if kind == DOT:
        for j in range(table.shape[1]):
            total += queries[0, i, j] * table[row, j]
        return total
    if kind == L1:
        for j in range(table.shape[1]):
            total += abs(queries[0, i, j] - table[row, j])
        return -total
    for j in range(table.shape[1]):
        difference = queries[0, i, j] - table[row, j]
        total += difference * difference
    return -np.sqrt(total)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy", inline="always")
def _pair_gradients(
    kind: int, g: Any, score: Any, queries: Array, i: int, table: Array, row: int, of_queries: Array, of_row: Array
) -> None:
    """Add to of_queries[0, i] and fill of_row (d,), the gradients of a pair, from the gradient g of its score."""
    scale = ZERO if score == ZERO else -g / score
    for j in range(table.shape[1]):
        if kind == DOT:
            of_queries[0, i, j] += g * table[row, j]
            of_row[j] = g * queries[0, i, j]
        else:
            difference = queries[0, i, j] - table[row, j]
            if kind == L1:
                along = g * (np.float32(difference > ZERO) - np.float32(difference < ZERO))
            else:
                along = scale * difference
            of_queries[0, i, j] -= along
            of_row[j] = along


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy", inline="always")
def _penalise(weight: float, power: float, row: Array, of_row: Array) -> None:
    """Add the gradient of weight * sum_i |x_i|^power of a row. power is 2 or 3."""
    scale = np.float32(weight * power)
    for j in range(len(row)):
        of_row[j] += scale * row[j] * (abs(row[j]) if power == 3 else np.float32(1))


@njit(cache=True, nogil=True)
def _take(table: Array, ids: Numbers, rows: Array) -> None:
    """Fill rows (1, n, d) with the rows ids (n,) of a table."""
    for j in range(len(ids)):
        for column in range(table.shape[1]):
            rows[0, j, column] = table[ids[j], column]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _ask(
    form: int, factor: float, kind: int, entities: Array, predicates: Array, positives: Numbers, first: int,
    queries: Array, own: Array,
) -> None:  # fmt: skip
    """Fill the queries (2, c, d) of the positives from `first` on, and the scores (c,) of these positives."""
    for i in range(len(own)):
        if first + i + AHEAD < len(positives):
            prefetch(entities, positives[first + i + AHEAD, 0])
            prefetch(entities, positives[first + i + AHEAD, 2])
        s, p, o = positives[first + i]
        fill_queries(form, factor, entities, predicates, s, p, o, queries, i)
        own[i] = _pair_score(kind, queries, i, entities, o)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _loss_of_sides(
    loss: int, terms: tuple[float, float], apart: bool, own: Array, objects: Array, subjects: Array, left_out: Bools,
    of_own: Array, of_objects: Array, of_subjects: Array,
) -> float:  # fmt: skip
    """Return the loss of the first positives of a chunk, as many as `left_out` has rows, and fill all gradients.

    own, objects, subjects  the scores of positives (c,), and of their corruptions (c, n) and (c, m)
    """
    used, n, m = len(left_out), objects.shape[1], subjects.shape[1]
    of_side, total = np.zeros(len(own), np.float32), 0.0
    for i in range(len(own)):
        of_own[i] = ZERO
    for side in range(2 if apart else 1):  # the sides as one matrix, or each for itself
        begin, end = (side * n, n + side * m) if apart else (0, n + m)
        if apart and begin == end:  # a side without corruptions has no loss
            continue
        scores, mask = np.empty((used, end - begin), np.float32), np.empty((used, end - begin), np.bool_)
        gradient = np.empty((used, end - begin), np.float32)
        for i in range(used):
            for j in range(begin, min(n, end)):
                scores[i, j - begin] = objects[i, j]
            for j in range(max(n, begin), end):
                scores[i, j - begin] = subjects[i, j - n]
            for j in range(begin, end):
                mask[i, j - begin] = left_out[i, j]
        total += loss_of(loss, terms, own[:used], scores, mask, of_side, gradient)
        for i in range(used):
            of_own[i] += of_side[i]
        for i in range(len(own)):
            for j in range(begin, min(n, end)):
                of_objects[i, j] = gradient[i, j - begin] if i < used else ZERO
            for j in range(max(n, begin), end):
                of_subjects[i, j - n] = gradient[i, j - begin] if i < used else ZERO
    return total


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def run_chunks(
    kinds: tuple[int, int, int], constants: tuple[float, float, float, float, float], apart: bool, entities: Array,
    predicates: Array, positives: Numbers, objects: Numbers, subjects: Numbers, left_out: Bools, count: int,
    losses: Any, of_entities: Array, of_predicates: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Compute the losses of chunks [start, stop), and the gradients of the rows that they use.

    kinds          the form of the queries, the comparison and the loss
    constants      the factor of the queries, the constants of the loss, the weight and the power of the LP penalty
    apart          whether each side has a loss of its own
    positives      (b, 3) in chunks of c; the first `count` of them count
    objects        (b / c, n) replacements of objects
    subjects       (b / c, m) replacements of subjects
    left_out       (b, n + m) True where the loss of a positive ignores a corruption
    losses         (b / c,) to fill: the loss of each chunk, without the penalty
    of_entities    (2 b + (b / c) (n + m), d) to fill: the gradients of subjects, objects, `objects` and `subjects`
    of_predicates  (b, d) to fill
    """
    form, kind, loss = kinds
    factor, terms, weight, power = constants[0], (constants[1], constants[2]), constants[3], constants[4]
    b, c, width = len(positives), len(positives) // len(objects), entities.shape[1]
    n, m = objects.shape[1], subjects.shape[1]
    queries, of_queries = np.empty((2, c, width), np.float32), np.empty((2, c, width), np.float32)
    new_objects, new_subjects = np.empty((1, n, width), np.float32), np.empty((1, m, width), np.float32)
    of_objects, of_subjects = np.empty((1, c, n), np.float32), np.empty((1, c, m), np.float32)
    to_objects, to_subjects = np.empty((1, c, n), np.float32), np.empty((1, c, m), np.float32)
    own, of_own = np.empty(c, np.float32), np.empty(c, np.float32)
    for chunk in range(start, stop):
        first = chunk * c
        used = min(c, count - first)
        _ask(form, factor, kind, entities, predicates, positives, first, queries, own)
        _take(entities, objects[chunk], new_objects)
        _take(entities, subjects[chunk], new_subjects)
        _compare(kind, queries[:1], new_objects, to_objects)
        _compare(kind, queries[1:], new_subjects, to_subjects)
        mask = left_out[first : first + used]
        losses[chunk] = _loss_of_sides(
            loss, terms, apart, own, to_objects[0], to_subjects[0], mask, of_own, of_objects[0], of_subjects[0]
        )
        at = 2 * b + chunk * n
        of_new = of_entities[at : at + n].reshape((1, n, width))
        _differentiate(kind, queries[:1], new_objects, to_objects, of_objects, of_queries[:1], of_new)
        at = 2 * b + len(objects) * n + chunk * m
        of_new = of_entities[at : at + m].reshape((1, m, width))
        _differentiate(kind, queries[1:], new_subjects, to_subjects, of_subjects, of_queries[1:], of_new)
        for i in range(c):
            s, p, o = positives[first + i]
            of_s, of_p, of_o = of_entities[first + i], of_predicates[first + i], of_entities[b + first + i]
            _pair_gradients(kind, of_own[i], own[i], queries, i, entities, o, of_queries, of_o)
            pass_through(form, factor, entities, predicates, s, p, o, of_queries, i, of_s, of_p, of_o)
            if weight and i < used:
                _penalise(weight, power, entities[s], of_s)
                _penalise(weight, power, predicates[p], of_p)
                _penalise(weight, power, entities[o], of_o)
