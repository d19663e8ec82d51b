"""Queries of models as loops, and the gradients that pass through them.

A `QueryModel` whose queries have one of these forms sets `form` and `factor`. The queries stay one expression in the
model's file: that is the plain form of these loops, and tests compare the two.

`entities` and `predicates` are tables of rows. The row of a rotation r = exp(i phase) holds its cosines, then its
sines: see `Model.prepared`. Numbers for both queries are arrays (2, n, d): those of the object queries, then those of
the subject queries.
"""

import numpy as np

from kgcore.loops.compiled import Array, part

# Object and subject queries: s + p and o - p; c s p and c p o; the same for complex numbers, real parts first, with the
# conjugate of p in the second; r s and conj(r) o for rotations r. c is the factor
TRANSLATION, PRODUCT, COMPLEX, ROTATION = 0, 1, 2, 3


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
    else:
        k = width // 2
        for j in range(k):
            re, im = c * predicates[p, j], c * predicates[p, k + j]
            g_re, g_im, h_re, h_im = (
                gradients[0, i, j],
                gradients[0, i, k + j],
                gradients[1, i, j],
                gradients[1, i, k + j],
            )
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
