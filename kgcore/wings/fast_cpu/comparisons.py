"""Comparisons of queries with rows, and their gradients.

The first loops compare queries with the candidates of their chunk: scores are negative distances of queries (b, c, d)
and candidates (b, n, d): (b, c, n). The others compare a query with rows of a table where they are, for positives whose
corruptions no other positive shares: copies of the rows cost more than all arithmetic. Each part [start, stop) of a
loop writes its own results. The last loops fill found (q, c) with the distances of queries (q, d) and the columns of a
transposed tile of entities (d, c), see scores.py. `Comparator.outer` is the plain form. Tests compare the two.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kgcore.loops.compiled import AHEAD, Array, exact_loop, exact_part, loop, part, prefetch

L1, L2, MODULUS, DOT = 0, 1, 2, 3  # sum_i |x_i|, its Euclidean form, its form for complex numbers, and dot products
MODULUS_PLUS = np.float32(1e-12)  # as in kgcore/embed/models/rotate.py
ZERO, ONE = np.float32(0), np.float32(1)

Numbers = npt.NDArray[np.int64]
TileLoop = Callable[[Array, Array, Array], None]

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
                scores[block, i, j] = -np.sqrt(ZERO if square < ZERO else square)
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


@part
def pair_score(kind: int, queries: Array, i: int, table: Array, row: int) -> Any:
    """Return the score of query i and a row."""
    total, width, half = np.float32(0), table.shape[1], table.shape[1] // 2
    if kind == DOT:
        for j in range(width):
            total += queries[i, j] * table[row, j]
        return total
    if kind == L1:
        for j in range(width):
            total += abs(queries[i, j] - table[row, j])
        return -total
    if kind == L2:
        for j in range(width):
            difference = queries[i, j] - table[row, j]
            total += difference * difference
        return -np.sqrt(total)
    for j in range(half):
        re, im = queries[i, j] - table[row, j], queries[i, half + j] - table[row, half + j]
        total += np.sqrt(re * re + im * im + MODULUS_PLUS)
    return -total


@part
def add_gradient(
    kind: int, g: Any, score: Any, points: Array, i: int, others: Array, other: int, sums: Array, place: int
) -> None:
    """Add g times the gradient of the score of points[i] and others[other] with respect to points[i] to sums[place]."""
    width, half = points.shape[1], points.shape[1] // 2
    if kind == DOT:
        for j in range(width):
            sums[place, j] += g * others[other, j]
    elif kind == L1:
        for j in range(width):
            difference = others[other, j] - points[i, j]
            sums[place, j] += g * math.copysign(ONE, difference) if difference != ZERO else ZERO
    elif kind == L2:
        scale = -g / score if score != ZERO else ZERO
        for j in range(width):
            sums[place, j] += scale * (others[other, j] - points[i, j])
    else:
        for j in range(half):
            re, im = others[other, j] - points[i, j], others[other, half + j] - points[i, half + j]
            scale = g / np.sqrt(re * re + im * im + MODULUS_PLUS)
            sums[place, j] += scale * re
            sums[place, half + j] += scale * im


@loop
def row_scores(kind: int, queries: Array, table: Array, ids: Numbers, scores: Array, start: int, stop: int) -> None:
    """Fill scores (b, n) of queries [start, stop) of (b, d) with those of their rows ids (b, n) of a table."""
    size, every = ids.shape[1], ids.ravel()
    last = stop * size - AHEAD
    for i in range(start, stop):
        for j in range(size):
            if i * size + j < last:
                prefetch(table, every[i * size + j + AHEAD])
            scores[i, j] = pair_score(kind, queries, i, table, ids[i, j])


@loop
def query_gradients(
    kind: int, queries: Array, table: Array, ids: Numbers, scores: Array, gradient: Array, sums: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Fill sums (stop - start or more, d) with the gradients of queries [start, stop) of (b, d).

    scores, gradient  (b, n) the scores, and the gradient of the loss with respect to them
    """
    size, every = ids.shape[1], ids.ravel()
    last = stop * size - AHEAD
    for i in range(start, stop):
        for column in range(queries.shape[1]):
            sums[i - start, column] = ZERO
        for j in range(size):
            if i * size + j < last:
                prefetch(table, every[i * size + j + AHEAD])
            if gradient[i, j] != ZERO:
                add_gradient(kind, gradient[i, j], scores[i, j], queries, i, table, ids[i, j], sums, i - start)


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
    width, tiny = queries.shape[1], MODULUS_PLUS
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
    half, tiny = queries.shape[1] // 2, MODULUS_PLUS
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


TILE_LOOPS = {"l1": l1_tile, "l2": l2_tile, "modulus": modulus_tile, "torus1": torus1_tile, "torus2": torus2_tile}
