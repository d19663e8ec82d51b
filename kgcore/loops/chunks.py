"""Distances between queries and the candidates of their chunk, and their gradients.

Scores are negative distances of queries (b, c, d) and candidates (b, n, d): (b, c, n). `kgcore/models/chunks.py` calls
the loops, and `Comparator.outer` is their plain form. Tests compare the two.
"""

import math

import numpy as np

from kgcore.loops.compiled import Array, loop, part
from kgcore.loops.rows import MODULUS_PLUS, ONE, ZERO

NEAR = np.float32(1 / 8)  # of ||q||^2 + ||e||^2: below it, ||q - e||^2 from a product of matrices has too few bits


@loop
def l1_scores(queries: Array, candidates: Array, scores: Array) -> None:
    """Fill the scores: the negative sums of |query - candidate|."""
    for block in range(queries.shape[0]):
        for i in range(queries.shape[1]):
            for j in range(candidates.shape[1]):
                total = ZERO
                for column in range(queries.shape[2]):
                    total += abs(queries[block, i, column] - candidates[block, j, column])
                scores[block, i, j] = -total


@loop
def l1_gradients(queries: Array, candidates: Array, gradient: Array, of_queries: Array, of_candidates: Array) -> None:
    """Fill the gradients of queries and candidates.

    gradient  (b, c, n) of the scores. The derivative of |x| at 0 is 0
    """
    of_candidates[:] = ZERO
    width = queries.shape[2]
    query, sums = np.empty(width, np.float32), np.empty(width, np.float32)
    for block in range(queries.shape[0]):
        for i in range(queries.shape[1]):
            for column in range(width):
                query[column], sums[column] = queries[block, i, column], ZERO
            for j in range(candidates.shape[1]):
                g = gradient[block, i, j]
                for column in range(width):
                    difference = candidates[block, j, column] - query[column]
                    signed = g * math.copysign(ONE, difference) if difference != ZERO else ZERO
                    sums[column] += signed
                    of_candidates[block, j, column] -= signed
            for column in range(width):
                of_queries[block, i, column] = sums[column]


@part
def _squares(rows: Array) -> Array:
    """Return ||x||^2 of the rows (n, d): (n,)."""
    squares = np.zeros(len(rows), np.float32)
    for i in range(len(rows)):
        for column in range(rows.shape[1]):
            squares[i] += rows[i, column] * rows[i, column]
    return squares


@loop
def l2_scores(queries: Array, candidates: Array, scores: Array) -> None:
    """Replace the dot products of queries and candidates in `scores` by the scores."""
    n = candidates.shape[1]
    for block in range(queries.shape[0]):
        own, others = _squares(queries[block]), _squares(candidates[block])
        for i in range(queries.shape[1]):
            near = 0
            for j in range(n):
                both = own[i] + others[j]
                square = both - scores[block, i, j] - scores[block, i, j]
                near += square < NEAR * both
                scores[block, i, j] = -np.sqrt(square if square > ZERO else ZERO)
            for j in range(n if near else 0):
                if scores[block, i, j] * scores[block, i, j] < NEAR * (own[i] + others[j]):
                    total = ZERO
                    for column in range(queries.shape[2]):
                        difference = queries[block, i, column] - candidates[block, j, column]
                        total += difference * difference
                    scores[block, i, j] = -np.sqrt(total)


@loop
def l2_weights(queries: Array, candidates: Array, scores: Array, gradient: Array, weights: Array) -> None:
    """Fill weights w = gradient / distance (b, c, n), 0 for near pairs.

    The gradients of the queries are then sum_j w_ij (e_j - q_i), and those of the candidates sum_i w_ij (q_i - e_j).
    """
    for block in range(queries.shape[0]):
        own, others = _squares(queries[block]), _squares(candidates[block])
        for i in range(queries.shape[1]):
            for j in range(candidates.shape[1]):
                score = scores[block, i, j]
                far = score * score >= NEAR * (own[i] + others[j]) and score < ZERO
                weights[block, i, j] = -gradient[block, i, j] / (score if far else -ONE) if far else ZERO


@loop
def l2_gradients(
    queries: Array, candidates: Array, scores: Array, gradient: Array, weights: Array, of_queries: Array,
    of_candidates: Array,
) -> None:  # fmt: skip
    """Complete the gradients, which hold sum_j w_ij e_j and sum_i w_ij q_i: subtract the rest, and add near pairs."""
    width = queries.shape[2]
    for block in range(queries.shape[0]):
        own, others = np.zeros(queries.shape[1], np.float32), np.zeros(candidates.shape[1], np.float32)
        for i in range(len(own)):
            for j in range(len(others)):
                w = weights[block, i, j]
                own[i] += w
                others[j] += w
                score, g = scores[block, i, j], gradient[block, i, j]
                if w == ZERO and score < ZERO and g != ZERO:
                    for column in range(width):
                        share = (candidates[block, j, column] - queries[block, i, column]) * (-g / score)
                        of_queries[block, i, column] += share
                        of_candidates[block, j, column] -= share
        for i in range(len(own)):
            for column in range(width):
                of_queries[block, i, column] -= own[i] * queries[block, i, column]
        for j in range(len(others)):
            for column in range(width):
                of_candidates[block, j, column] -= others[j] * candidates[block, j, column]


@loop
def modulus_scores(queries: Array, candidates: Array, scores: Array) -> None:
    """Fill the scores: the negative sums of |query - candidate| of complex numbers, real parts first."""
    half = queries.shape[2] // 2
    for block in range(queries.shape[0]):
        for i in range(queries.shape[1]):
            for j in range(candidates.shape[1]):
                total = ZERO
                for column in range(half):
                    re = queries[block, i, column] - candidates[block, j, column]
                    im = queries[block, i, half + column] - candidates[block, j, half + column]
                    total += np.sqrt(re * re + im * im + MODULUS_PLUS)
                scores[block, i, j] = -total


@loop
def modulus_gradients(
    queries: Array, candidates: Array, gradient: Array, of_queries: Array, of_candidates: Array
) -> None:
    """Fill the gradients of queries and candidates from the gradient (b, c, n) of `modulus_scores`."""
    of_candidates[:] = ZERO
    width, half = queries.shape[2], queries.shape[2] // 2
    query, sums = np.empty(width, np.float32), np.empty(width, np.float32)
    for block in range(queries.shape[0]):
        for i in range(queries.shape[1]):
            for column in range(width):
                query[column], sums[column] = queries[block, i, column], ZERO
            for j in range(candidates.shape[1]):
                g = gradient[block, i, j]
                for column in range(half):
                    re = candidates[block, j, column] - query[column]
                    im = candidates[block, j, half + column] - query[half + column]
                    scale = g / np.sqrt(re * re + im * im + MODULUS_PLUS)
                    sums[column] += scale * re
                    sums[half + column] += scale * im
                    of_candidates[block, j, column] -= scale * re
                    of_candidates[block, j, half + column] -= scale * im
            for column in range(width):
                of_queries[block, i, column] = sums[column]
