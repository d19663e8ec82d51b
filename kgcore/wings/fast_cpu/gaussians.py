"""KG2E: a training step, and the divergences of a tile: see kgcore/embed/models/kg2e.py.

A query has 3 k numbers: a mean m, a variance v, and a variance w. An entity has 2 k: a mean m' and a variance v'. With
V = v + v' and d = m - m', their score is

    -1/2 sum_i [(V_i + d_i^2) / w_i - log(V_i / w_i) - 1]

The sum of logarithms is one logarithm: that of the product of all V_i / w_i. The product's exponent is counted apart,
so that it cannot overflow while each V_i / w_i is between 1e-9 and 1e9. A logarithm of each number would take most of
the time.
"""

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools
from kgcore.loops.compiled import AHEAD, Array, exact_loop, exact_part, loop, part, prefetch
from kgcore.wings.fast_cpu.comparisons import ZERO, Numbers
from kgcore.wings.fast_cpu.losses import exponentials, log1p, loss_of_sides, penalise

LEAST_VARIANCE = np.float32(0.05)  # as in kgcore/embed/models/kg2e.py
LOG_2 = np.float32(np.log(2))
BIAS, MANTISSA, ONE = np.int32(127), np.int32(0x007FFFFF), np.int32(0x3F800000)  # of the bits of a float32
TERMS = 4  # ratios that are multiplied before the exponent is taken out of their product


@exact_part
def _take_exponents(products: Array, bits: npt.NDArray[np.int32], exponents: npt.NDArray[np.int32]) -> None:
    """Bring the products (c,) into [1, 2), and add their exponents to `exponents`. `bits` is their memory."""
    for j in range(len(products)):
        exponents[j] += (bits[j] >> 23) - BIAS
        bits[j] = (bits[j] & MANTISSA) | ONE


@exact_loop
def divergence_tile(queries: Array, columns: Array, found: Array) -> None:
    """Fill found (q, c) with the negative scores of queries (q, 3 k) and of entities, the columns (2 k, c).

    The loops over columns have no sums, so that a column has the same bits wherever it stands in a tile.
    """
    k, count = columns.shape[0] // 2, columns.shape[1]
    half, one = np.float32(0.5), np.float32(1)
    products, exponents = np.empty(count, np.float32), np.empty(count, np.int32)
    bits = products.view(np.int32)
    for row in range(queries.shape[0]):
        found[row], products[:], exponents[:] = 0, 1, 0
        for i in range(k):
            mean, variance, weight = queries[row, i], queries[row, k + i], one / queries[row, 2 * k + i]
            for j in range(count):
                ratio, difference = (variance + columns[k + i, j]) * weight, mean - columns[i, j]
                found[row, j] += (ratio - one) + difference * difference * weight
                products[j] *= ratio
            if i % TERMS == TERMS - 1:
                _take_exponents(products, bits, exponents)
        _take_exponents(products, bits, exponents)
        for j in range(count):
            found[row, j] = half * (found[row, j] - (np.float32(exponents[j]) * LOG_2 + np.log(products[j])))


@part
def _divergences(queries: Array, entities: Array, found: Array) -> None:
    """Fill found (q, c) with the scores of queries (q, 3k) and entities (c, 2k).

    The inner loops run over the queries: there are more of them than entities.
    """
    k, count, size = entities.shape[1] // 2, len(queries), len(entities)
    half, one = np.float32(0.5), np.float32(1)
    means, variances, weights = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    sums, products = np.empty((size, count), np.float32), np.empty((size, count), np.float32)
    exponents, bits = np.empty((size, count), np.int32), products.view(np.int32)
    sums[:], products[:], exponents[:] = 0, 1, 0
    for i in range(k):
        for j in range(count):
            means[j], variances[j], weights[j] = queries[j, i], queries[j, k + i], one / queries[j, 2 * k + i]
        for row in range(size):
            mean, variance = entities[row, i], entities[row, k + i]
            for j in range(count):
                ratio, difference = (variances[j] + variance) * weights[j], means[j] - mean
                sums[row, j] += (ratio - one) + difference * difference * weights[j]
                products[row, j] *= ratio
            if i % TERMS == TERMS - 1 or i == k - 1:
                _take_exponents(products[row], bits[row], exponents[row])
    for j in range(count):
        for row in range(size):
            logarithm = np.float32(exponents[row, j]) * LOG_2 + np.log(products[row, j])
            found[j, row] = half * (logarithm - sums[row, j])


@part
def _divergence_gradients(
    queries: Array, entities: Array, gradient: Array, of_queries: Array, of_entities: Array
) -> None:
    """Fill the gradients of queries (q, 3k) and entities (c, 2k) from that of the scores (q, c)."""
    k, count, size = entities.shape[1] // 2, len(queries), len(entities)
    half, one = np.float32(0.5), np.float32(1)
    means, variances, weights = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    of_means, of_variances = np.empty(count, np.float32), np.empty(count, np.float32)
    of_weights, outer = np.empty(count, np.float32), np.empty((size, count), np.float32)
    for j in range(count):
        for row in range(size):
            outer[row, j] = -gradient[j, row]
    for i in range(k):
        for j in range(count):
            means[j], variances[j], weights[j] = queries[j, i], queries[j, k + i], one / queries[j, 2 * k + i]
        of_means[:], of_variances[:], of_weights[:] = 0, 0, 0
        for row in range(size):
            mean, variance, of_mean, of_variance = entities[row, i], entities[row, k + i], ZERO, ZERO
            for j in range(count):
                g, total, scaled = outer[row, j], variances[j] + variance, (means[j] - mean) * weights[j]
                by_variance = half * g * (weights[j] - one / total)
                of_means[j] += g * scaled
                of_mean -= g * scaled
                of_variances[j] += by_variance
                of_variance += by_variance
                of_weights[j] += half * g * (weights[j] * (one - total * weights[j]) - scaled * scaled)
            of_entities[row, i], of_entities[row, k + i] = of_mean, of_variance
        for j in range(count):
            of_queries[j, i], of_queries[j, k + i] = of_means[j], of_variances[j]
            of_queries[j, 2 * k + i] = of_weights[j]


@part
def _score_positives(queries: Array, entities: Array, scores: Array) -> None:
    """Fill scores (c,) of the i-th query (c, 3k) and the i-th entity (c, 2k)."""
    k, half, one = entities.shape[1] // 2, np.float32(0.5), np.float32(1)
    ratios = np.empty(k, np.float32)
    for row in range(len(scores)):
        total = ZERO
        for i in range(k):
            weight, difference = one / queries[row, 2 * k + i], queries[row, i] - entities[row, i]
            ratio = (queries[row, k + i] + entities[row, k + i]) * weight
            total += (ratio - one) + difference * difference * weight
            ratios[i] = ratio
        for first in range(0, k, TERMS):
            product = one
            for i in range(first, min(first + TERMS, k)):
                product *= ratios[i]
            total -= np.log(product)
        scores[row] = -half * total


@part
def _add_positives(queries: Array, entities: Array, gradient: Array, of_queries: Array, of_entities: Array) -> None:
    """Add the gradients of `_score_positives` to of_queries (c, 3k), and fill those of the entities (c, 2k)."""
    k, half, one = entities.shape[1] // 2, np.float32(0.5), np.float32(1)
    for row in range(len(gradient)):
        g = -gradient[row]
        for i in range(k):
            total, weight = queries[row, k + i] + entities[row, k + i], one / queries[row, 2 * k + i]
            scaled = (queries[row, i] - entities[row, i]) * weight
            by_variance = half * g * (weight - one / total)
            of_queries[row, i] += g * scaled
            of_queries[row, k + i] += by_variance
            of_queries[row, 2 * k + i] += half * g * (weight * (one - total * weight) - scaled * scaled)
            of_entities[row, i], of_entities[row, k + i] = -g * scaled, by_variance


@part
def _take_moments(table: Array, ids: Numbers, moments: Array, slopes: Array) -> None:
    """Fill moments (n, 2k) and slopes (n, k) of rows: means, variances, and the derivatives of the variances."""
    k, one = table.shape[1] // 2, np.float32(1)
    x, t, bits = np.empty(k, np.float32), np.empty(k, np.float32), np.empty(k, np.int32)
    for j in range(len(ids)):
        if j + AHEAD < len(ids):
            prefetch(table, ids[j + AHEAD])
        row = ids[j]
        for i in range(k):
            moments[j, i] = table[row, i]
            x[i] = -abs(table[row, k + i])
        exponentials(x, t, bits)
        for i in range(k):
            spread = table[row, k + i]
            moments[j, k + i] = LEAST_VARIANCE + ((ZERO if spread < ZERO else spread) + log1p(t[i]))  # softplus
            slopes[j, i] = (t[i] if spread < ZERO else one) / (one + t[i])


@part
def _scale(slopes: Array, gradient: Array) -> None:
    """Replace the gradients of variances, the second half of gradient (n, 2k), by those of the numbers of the rows."""
    k = slopes.shape[1]
    for j in range(len(slopes)):
        for i in range(k):
            gradient[j, k + i] *= slopes[j, i]


@part
def _ask(ends: Array, of_predicates: Array, queries: Array) -> None:
    """Fill queries (2, c, 3k) from the moments of subjects and objects (2, c, 2k) and of predicates (c, 2k)."""
    k = ends.shape[2] // 2
    for i in range(ends.shape[1]):
        for j in range(k):
            queries[0, i, j] = ends[0, i, j] - of_predicates[i, j]
            queries[1, i, j] = ends[1, i, j] + of_predicates[i, j]
            for side in range(2):
                queries[side, i, k + j] = ends[side, i, k + j]
                queries[side, i, 2 * k + j] = of_predicates[i, k + j]


@part
def _pass_through(of_queries: Array, of_subjects: Array, of_predicates: Array, of_objects: Array) -> None:
    """Fill the gradients of subjects and predicates (c, 2k) from those of queries (2, c, 3k), and add to objects'."""
    k = of_subjects.shape[1] // 2
    for i in range(len(of_subjects)):
        for j in range(k):
            of_subjects[i, j], of_subjects[i, k + j] = of_queries[0, i, j], of_queries[0, i, k + j]
            of_objects[i, j] += of_queries[1, i, j]
            of_objects[i, k + j] += of_queries[1, i, k + j]
            of_predicates[i, j] = of_queries[1, i, j] - of_queries[0, i, j]
            of_predicates[i, k + j] = of_queries[0, i, 2 * k + j] + of_queries[1, i, 2 * k + j]


@loop
def run_gaussians(
    loss: int, constants: tuple[float, float, float, float], apart: bool, entities: Array, predicates: Array,
    positives: Numbers, objects: Numbers, subjects: Numbers, left_out: Bools, count: int,
    losses: npt.NDArray[np.float64], of_entities: Array, of_predicates: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Compute the losses of chunks [start, stop), and the gradients of the rows that they use.

    constants  two constants of the loss, the weight and the power of the LP penalty

    The other arguments are those of `run_chunks` in kgcore/wings/fast_cpu/steps.py.
    """
    terms, weight, power = (constants[0], constants[1]), constants[2], constants[3]
    b, c, n, m = len(positives), len(positives) // len(objects), objects.shape[1], subjects.shape[1]
    width, k = entities.shape[1], entities.shape[1] // 2
    ends, slopes = np.empty((2, c, width), np.float32), np.empty((2, c, k), np.float32)
    of_relation, relation_slopes = np.empty((c, width), np.float32), np.empty((c, k), np.float32)
    rows, row_slopes = np.empty((n + m, width), np.float32), np.empty((n + m, k), np.float32)
    queries, of_queries = np.empty((2, c, 3 * k), np.float32), np.empty((2, c, 3 * k), np.float32)
    own, of_own, ids = np.empty(c, np.float32), np.empty(c, np.float32), np.empty(n + m, np.int64)
    to_objects, to_subjects = np.empty((c, n), np.float32), np.empty((c, m), np.float32)
    of_objects, of_subjects = np.empty((c, n), np.float32), np.empty((c, m), np.float32)
    for chunk in range(start, stop):
        first = chunk * c
        used = min(c, count - first)
        triples = positives[first : first + c]
        _take_moments(entities, triples[:, 0], ends[0], slopes[0])
        _take_moments(entities, triples[:, 2], ends[1], slopes[1])
        _take_moments(predicates, triples[:, 1], of_relation, relation_slopes)
        ids[:n], ids[n:] = objects[chunk], subjects[chunk]
        _take_moments(entities, ids, rows, row_slopes)
        _ask(ends, of_relation, queries)
        _score_positives(queries[0], ends[1], own)
        for side in range(2):  # one call for both, which the compiler copies into the loop once
            _divergences(queries[side], rows[:n] if side == 0 else rows[n:], to_objects if side == 0 else to_subjects)
        losses[chunk] = loss_of_sides(
            loss, terms, apart, own, to_objects, to_subjects, left_out[first : first + used], of_own, of_objects,
            of_subjects,
        )  # fmt: skip
        for side in range(2):
            at, size = (2 * b + chunk * n, n) if side == 0 else (2 * b + len(objects) * n + chunk * m, m)
            _divergence_gradients(
                queries[side], rows[:n] if side == 0 else rows[n:], of_objects if side == 0 else of_subjects,
                of_queries[side], of_entities[at : at + size],
            )  # fmt: skip
            _scale(row_slopes[:n] if side == 0 else row_slopes[n:], of_entities[at : at + size])
        of_s, of_o = of_entities[first : first + c], of_entities[b + first : b + first + c]
        of_p = of_predicates[first : first + c]
        _add_positives(queries[0], ends[1], of_own, of_queries[0], of_o)
        _pass_through(of_queries, of_s, of_p, of_o)
        _scale(slopes[0], of_s)
        _scale(slopes[1], of_o)
        _scale(relation_slopes, of_p)
        for i in range(used if weight else 0):
            penalise(weight, power, entities[triples[i, 0]], of_s[i])
            penalise(weight, power, predicates[triples[i, 1]], of_p[i])
            penalise(weight, power, entities[triples[i, 2]], of_o[i])
