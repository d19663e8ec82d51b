"""A training step as one loop: queries, scores, losses and all gradients.

All that some positives need stays in the processor's cache from their queries to the gradients of their rows. Each part
[start, stop) of a step writes its own results, so parts may run in several threads. Automatic differentiation of
`kgcore/embed/training/objective.py` is the plain form: the queries stay one expression in the model's file.

`entities` and `predicates` are tables of rows. `prepared` and `asked` are a table of predicates and the row (b,) of
each positive's predicate in it: the row of a rotation r = exp(i phase) holds its cosines, then its sines. If the model
computes the queries (GIVEN), there is a row (2 d,) for each positive: its object query, then its subject query. Numbers
for both queries are arrays (2, n, d): those of the object queries, then those of the subject queries.
"""

from typing import Any

import numpy as np

from kgcore.arrays import Bools
from kgcore.loops.compiled import AHEAD, Array, exact_part, loop, part, prefetch
from kgcore.wings.fast_cpu.comparisons import (
    L1,
    L2,
    MODULUS,
    ZERO,
    Numbers,
    add_gradient,
    l1_gradients,
    l1_scores,
    l2_gradients,
    l2_scores,
    l2_weights,
    modulus_gradients,
    modulus_scores,
    pair_score,
    query_gradients,
    row_scores,
)
from kgcore.wings.fast_cpu.losses import loss_of_sides, penalise

# Object and subject queries: s + p and o - p; c s p and c p o; the same for complex numbers, real parts first, with the
# conjugate of p in the second; r s and conj(r) o for rotations r; those that a row of `prepared` holds. c is the factor
TRANSLATION, PRODUCT, COMPLEX, ROTATION, GIVEN = 0, 1, 2, 3, 4

ALONE = 2**18  # products of a matrix product that BLAS computes on the calling thread
TOGETHER = 12  # rows of a matrix product for which BLAS has its fastest loop: more take up to 1.9 times as long
START: Any = np.int64(0)  # Numba would compile the parts of a step once more for a literal
BLOCK = 32  # positives with corruptions of their own whose rows stay in the cache

# the form of the queries, the comparison and the loss
Kinds = tuple[int, int, int]
# the factor of the queries, two constants of the loss, the weight and the power of the LP penalty
Constants = tuple[float, float, float, float, float]


@part
def fill_queries(
    form: int, factor: float, entities: Array, predicates: Array, s: int, p: int, o: int, queries: Array, i: int
) -> None:
    """Fill queries[0, i] and queries[1, i]: the object query and the subject query of rows s, p, o of the tables."""
    width, c = entities.shape[1], np.float32(factor)
    if form == TRANSLATION:
        for j in range(width):
            queries[0, i, j] = entities[s, j] + predicates[p, j]
            queries[1, i, j] = entities[o, j] - predicates[p, j]
    elif form == PRODUCT:
        for j in range(width):
            scaled = c * predicates[p, j]
            queries[0, i, j] = entities[s, j] * scaled
            queries[1, i, j] = entities[o, j] * scaled
    elif form == GIVEN:
        for j in range(width):
            queries[0, i, j] = predicates[p, j]
            queries[1, i, j] = predicates[p, width + j]
    else:
        k = width // 2
        for j in range(k):
            re, im = c * predicates[p, j], c * predicates[p, k + j]
            queries[0, i, j] = entities[s, j] * re - entities[s, k + j] * im
            queries[0, i, k + j] = entities[s, j] * im + entities[s, k + j] * re
            queries[1, i, j] = entities[o, j] * re + entities[o, k + j] * im
            queries[1, i, k + j] = entities[o, k + j] * re - entities[o, j] * im


@part
def pass_through(
    form: int, factor: float, entities: Array, predicates: Array, s: int, p: int, o: int, queries: Array, place: int,
    gradients: Array, i: int, of_subject: Array, of_predicate: Array, of_object: Array,
) -> None:  # fmt: skip
    """Fill the gradients of a subject (d,) and a predicate (d',), and add to that of an object (d,).

    Given queries pass nothing to the subject and the object: the gradients of both queries are that of the predicate.

    queries    at [0, place] and [1, place]: the queries, as `fill_queries` has filled them
    gradients  at [0, i] and [1, i]: the gradients with respect to them
    """
    width, c = entities.shape[1], np.float32(factor)
    if form == TRANSLATION:
        for j in range(width):
            of_subject[j] = gradients[0, i, j]
            of_predicate[j] = gradients[0, i, j] - gradients[1, i, j]
            of_object[j] += gradients[1, i, j]
    elif form == PRODUCT:
        for j in range(width):
            scaled = c * predicates[p, j]
            of_subject[j] = gradients[0, i, j] * scaled
            of_object[j] += gradients[1, i, j] * scaled
            of_predicate[j] = c * (gradients[0, i, j] * entities[s, j] + gradients[1, i, j] * entities[o, j])
    elif form == GIVEN:
        for j in range(width):
            of_subject[j] = ZERO
            of_predicate[j] = gradients[0, i, j]
            of_predicate[width + j] = gradients[1, i, j]
    else:
        k = width // 2
        for j in range(k):
            re, im = c * predicates[p, j], c * predicates[p, k + j]
            g_re, g_im = gradients[0, i, j], gradients[0, i, k + j]
            h_re, h_im = gradients[1, i, j], gradients[1, i, k + j]
            of_subject[j] = g_re * re + g_im * im
            of_subject[k + j] = g_im * re - g_re * im
            of_object[j] += h_re * re - h_im * im
            of_object[k + j] += h_re * im + h_im * re
            if form == COMPLEX:
                s_re, s_im, o_re, o_im = entities[s, j], entities[s, k + j], entities[o, j], entities[o, k + j]
                of_predicate[j] = c * (g_re * s_re + g_im * s_im + h_re * o_re + h_im * o_im)
                of_predicate[k + j] = c * (g_im * s_re - g_re * s_im + h_re * o_im - h_im * o_re)
            else:  # a phase turns the object query, and turns the subject query back
                ahead = g_im * queries[0, place, j] - g_re * queries[0, place, k + j]
                back = h_im * queries[1, place, j] - h_re * queries[1, place, k + j]
                of_predicate[j] = ahead - back


@part
def ask(
    form: int, factor: float, kind: int, entities: Array, prepared: Array, positives: Numbers, asked: Numbers,
    first: int, queries: Array, place: int, own: Array,
) -> None:  # fmt: skip
    """Fill queries[:, place : place + c] of the c positives from `first` on, and their scores `own` (c,)."""
    for i in range(len(own)):
        if first + i + AHEAD < len(positives):
            prefetch(entities, positives[first + i + AHEAD, 0])
            prefetch(entities, positives[first + i + AHEAD, 2])
        s, o = positives[first + i, 0], positives[first + i, 2]
        fill_queries(form, factor, entities, prepared, s, asked[first + i], o, queries, place + i)
        own[i] = pair_score(kind, queries[0], place + i, entities, o)


@part
def answer(
    form: int, factor: float, kind: int, penalty: tuple[float, float], entities: Array, predicates: Array,
    prepared: Array, positives: Numbers, asked: Numbers, first: int, used: int, queries: Array, place: int, own: Array,
    of_own: Array, of_queries: Array, of_entities: Array, of_predicates: Array,
) -> None:  # fmt: skip
    """Fill the gradients of the rows of positives from `first` on, from those of their scores and of their queries.

    penalty        the weight and the power of the LP penalty of the first `used` positives
    queries        those of the positives, from `place` on
    own, of_own    (c,) the scores of the c positives, and the gradient of the loss with respect to them
    of_queries     (2, c or more, d) the gradient of the comparisons with corruptions; changed
    of_entities    (2 b or more, d) to fill: the gradients of the b subjects, then of the objects
    of_predicates  (b, d') to fill
    """
    (weight, power), b = penalty, len(positives)
    for i in range(len(own)):
        s, p, o = positives[first + i]
        of_s, of_p, of_o = of_entities[first + i], of_predicates[first + i], of_entities[b + first + i]
        of_o[:] = ZERO
        add_gradient(kind, of_own[i], own[i], queries[0], place + i, entities, o, of_queries[0], i)
        add_gradient(kind, of_own[i], own[i], entities, o, queries[0], place + i, of_entities, b + first + i)
        pass_through(
            form, factor, entities, prepared, s, asked[first + i], o, queries, place + i, of_queries, i, of_s, of_p,
            of_o,
        )  # fmt: skip
        if weight and i < used:
            penalise(weight, power, entities[s], of_s)
            if form != GIVEN:
                penalise(weight, power, predicates[p], of_p)
            penalise(weight, power, entities[o], of_o)


@part
def _multiply(a: Any, b: Any, out: Array) -> None:
    """Fill out (n, m) with the matrix product of a and b: some rows at a time, so that BLAS starts no threads."""
    rows = max(1, min(TOGETHER, ALONE // max(1, b.shape[0] * b.shape[1])))
    for first in range(0, len(a), rows):
        np.dot(a[first : first + rows], b, out[first : first + rows])


@part
def _compare(kind: int, queries: Array, candidates: Array, scores: Array) -> None:
    """Fill the scores (1, c, n) of queries (1, c, d) and candidates (1, n, d)."""
    if kind == L1:
        l1_scores(queries, candidates, scores)
    elif kind == MODULUS:
        modulus_scores(queries, candidates, scores)
    else:
        _multiply(queries[0], candidates[0].T, scores[0])
        if kind == L2:
            l2_scores(queries, candidates, scores)


@part
def _differentiate(
    kind: int, queries: Array, candidates: Array, scores: Array, gradient: Array, of_queries: Array,
    of_candidates: Array,
) -> None:  # fmt: skip
    """Fill the gradients of queries and candidates from the gradient (1, c, n) of the scores."""
    if kind == L1:
        l1_gradients(queries, candidates, gradient, of_queries, of_candidates)
        return
    if kind == MODULUS:
        modulus_gradients(queries, candidates, gradient, of_queries, of_candidates)
        return
    weights = gradient
    if kind == L2:
        weights = np.empty_like(gradient)
        l2_weights(queries, candidates, scores, gradient, weights)
    _multiply(weights[0], candidates[0], of_queries[0])
    _multiply(np.ascontiguousarray(weights[0].T), queries[0], of_candidates[0])
    if kind == L2:
        l2_gradients(queries, candidates, scores, gradient, weights, of_queries, of_candidates)


@exact_part
def _take(table: Array, ids: Numbers, rows: Array) -> None:
    """Fill rows (n, d) with the rows ids (n,) of a table."""
    for j in range(len(ids)):
        for column in range(table.shape[1]):
            rows[j, column] = table[ids[j], column]


@loop
def run_chunks(
    kinds: Kinds, constants: Constants, apart: bool, entities: Array, predicates: Array, prepared: Array,
    asked: Numbers, positives: Numbers, objects: Numbers, subjects: Numbers, left_out: Bools, count: int, losses: Any,
    of_entities: Array, of_predicates: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Compute the losses of chunks [start, stop), and the gradients of the rows that they use.

    apart          whether each side has a loss of its own
    prepared       predicates as the queries need them
    asked          (b,) the row of each positive's predicate in `prepared`
    positives      (b, 3) in chunks of c; the first `count` of them count
    objects        (b / c, n) replacements of objects
    subjects       (b / c, m) replacements of subjects
    left_out       (b, n + m) True where the loss of a positive ignores a corruption
    losses         (b / c,) to fill: the loss of each chunk, without the penalty
    of_entities    (2 b + (b / c) (n + m), d) to fill: the gradients of subjects, objects, `objects` and `subjects`
    of_predicates  (b, d') to fill
    """
    form, kind, loss = kinds
    factor, terms, penalty = constants[0], (constants[1], constants[2]), (constants[3], constants[4])
    b, c, width = len(positives), len(positives) // len(objects), entities.shape[1]
    n, m = objects.shape[1], subjects.shape[1]
    queries, of_queries = np.empty((2, c, width), np.float32), np.empty((2, c, width), np.float32)
    rows, own, of_own = np.empty((n + m, width), np.float32), np.empty(c, np.float32), np.empty(c, np.float32)
    scores, of_scores = np.empty(c * (n + m), np.float32), np.empty(c * (n + m), np.float32)
    to_objects, to_subjects = scores[: c * n].reshape((1, c, n)), scores[c * n :].reshape((1, c, m))
    of_objects, of_subjects = of_scores[: c * n].reshape((1, c, n)), of_scores[c * n :].reshape((1, c, m))
    new_objects, new_subjects = rows[:n].reshape((1, n, width)), rows[n:].reshape((1, m, width))
    for chunk in range(start, stop):
        first = chunk * c
        used = min(c, count - first)
        ask(form, factor, kind, entities, prepared, positives, asked, first, queries, START, own)
        _take(entities, objects[chunk], new_objects[0])
        _take(entities, subjects[chunk], new_subjects[0])
        for side in range(2):  # one call for both, which the compiler copies into the loop once
            _compare(
                kind, queries[side : side + 1], new_objects if side == 0 else new_subjects,
                to_objects if side == 0 else to_subjects,
            )  # fmt: skip
        losses[chunk] = loss_of_sides(
            loss, terms, apart, own, to_objects[0], to_subjects[0], left_out[first : first + used], of_own,
            of_objects[0], of_subjects[0],
        )  # fmt: skip
        for side in range(2):
            at, size = (chunk * n, n) if side == 0 else (len(objects) * n + chunk * m, m)
            _differentiate(
                kind, queries[side : side + 1], new_objects if side == 0 else new_subjects,
                to_objects if side == 0 else to_subjects, of_objects if side == 0 else of_subjects,
                of_queries[side : side + 1], of_entities[2 * b + at : 2 * b + at + size].reshape((1, size, width)),
            )  # fmt: skip
        answer(
            form, factor, kind, penalty, entities, predicates, prepared, positives, asked, first, used, queries,
            START, own, of_own, of_queries, of_entities, of_predicates,
        )  # fmt: skip


@loop
def run_own(
    kinds: Kinds, constants: Constants, apart: bool, entities: Array, predicates: Array, prepared: Array,
    asked: Numbers, positives: Numbers, objects: Numbers, subjects: Numbers, left_out: Bools, queries: Array,
    scores: Array, of_scores: Array, losses: Any, of_entities: Array, of_predicates: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Compute the losses of positives [start, stop) with corruptions of their own, which are read where they are.

    The arguments are those of `run_chunks` with c = 1, but

    queries      (2, b, d) to fill
    scores       (b (n + m),) to fill: the scores (b, n) of `objects`, then those (b, m) of `subjects`
    of_scores    the same for the gradient of the loss with respect to them
    losses       (b,) zeros: the loss of BLOCK positives is written at the first of them
    of_entities  (2 b, d) to fill: the gradients of subjects and objects. Those of corruptions follow from the scores
                 and their gradient: see `row_gradients`
    """
    form, kind, loss = kinds
    factor, terms, penalty = constants[0], (constants[1], constants[2]), (constants[3], constants[4])
    b, n, m = len(positives), objects.shape[1], subjects.shape[1]
    to_objects, to_subjects = scores[: b * n].reshape((b, n)), scores[b * n :].reshape((b, m))
    of_objects, of_subjects = of_scores[: b * n].reshape((b, n)), of_scores[b * n :].reshape((b, m))
    of_queries = np.empty((2, BLOCK, entities.shape[1]), np.float32)
    every_own, of_every = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        own, of_own = every_own[: last - first], of_every[: last - first]
        ask(form, factor, kind, entities, prepared, positives, asked, first, queries, first, own)
        for side in range(2):
            row_scores(
                kind, queries[side], entities, objects if side == 0 else subjects,
                to_objects if side == 0 else to_subjects, first, last,
            )  # fmt: skip
        losses[first] = loss_of_sides(
            loss, terms, apart, own, to_objects[first:last], to_subjects[first:last], left_out[first:last], of_own,
            of_objects[first:last], of_subjects[first:last],
        )  # fmt: skip
        for side in range(2):
            query_gradients(
                kind, queries[side], entities, objects if side == 0 else subjects,
                to_objects if side == 0 else to_subjects, of_objects if side == 0 else of_subjects, of_queries[side],
                first, last,
            )  # fmt: skip
        answer(
            form, factor, kind, penalty, entities, predicates, prepared, positives, asked, first, last - first, queries,
            first, own, of_own, of_queries, of_entities, of_predicates,
        )  # fmt: skip
