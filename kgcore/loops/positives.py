"""The positives of a training step in loops: queries, scores, losses and gradients.

`kgcore/loops/steps.py` adds the comparisons with corruptions. Arrays (2, n, d) hold numbers of both queries of n
positives, as in `kgcore/loops/queries.py`. `prepared` and `asked` are a table of predicates and the row (b,) of each
positive's predicate in it.
"""

import numpy as np

from kgcore.arrays import Bools
from kgcore.loops.compiled import Array, exact_part, part
from kgcore.loops.losses import loss_of
from kgcore.loops.prefetch import AHEAD, prefetch
from kgcore.loops.queries import fill_queries, pass_through
from kgcore.loops.rows import ZERO, Numbers, add_gradient, pair_score


@part
def _penalise(weight: float, power: float, row: Array, of_row: Array) -> None:
    """Add the gradient of weight * sum_i |x_i|^power of a row. power is 2 or 3."""
    scale = np.float32(weight * power)
    for j in range(len(row)):
        of_row[j] += scale * row[j] * (abs(row[j]) if power == 3 else np.float32(1))


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
            _penalise(weight, power, entities[s], of_s)
            _penalise(weight, power, predicates[p], of_p)
            _penalise(weight, power, entities[o], of_o)


@part
def loss_of_sides(
    loss: int, terms: tuple[float, float], apart: bool, own: Array, objects: Array, subjects: Array, left_out: Bools,
    of_own: Array, of_objects: Array, of_subjects: Array,
) -> float:  # fmt: skip
    """Return the loss of the first positives of a chunk, as many as `left_out` has rows, and fill all gradients.

    own, objects, subjects  the scores of positives (c,), and of their corruptions (c, n) and (c, m)
    """
    used, n, width = len(left_out), objects.shape[1], left_out.shape[1]
    total, of_side = 0.0, np.zeros(used, np.float32)
    of_own[:], of_objects[:], of_subjects[:] = ZERO, ZERO, ZERO
    for side in range(2 if apart else 1):  # the sides as one matrix, or each for itself
        begin, end = (side * n, width if side else n) if apart else (0, width)
        if apart and begin == end:  # a side without corruptions has no loss
            continue
        middle = min(max(n, begin), end)  # objects are before it, subjects after it
        scores, gradient = np.empty((used, end - begin), np.float32), np.empty((used, end - begin), np.float32)
        mask = np.ascontiguousarray(left_out[:, begin:end]) if apart else left_out
        for i in range(used):
            _copy(objects[i, begin:middle], scores[i, : middle - begin])
            _copy(subjects[i, middle - n : end - n], scores[i, middle - begin :])
        total += loss_of(loss, terms, own[:used], scores, mask, of_side, gradient)
        for i in range(used):
            of_own[i] += of_side[i]
            _copy(gradient[i, : middle - begin], of_objects[i, begin:middle])
            _copy(gradient[i, middle - begin :], of_subjects[i, middle - n : end - n])
    return total


@exact_part
def _copy(source: Array, target: Array) -> None:
    for j in range(len(source)):
        target[j] = source[j]
