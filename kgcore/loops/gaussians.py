"""Divergences of Gaussian distributions, compiled by Numba for the CPU: see kgcore/models/gaussians.py.

A query has 3 k numbers: a mean m, a variance v, and a variance w. An entity has 2 k: a mean m' and a variance v'. With
V = v + v' and d = m - m', their score is

    -1/2 sum_i [(V_i + d_i^2) / w_i - log(V_i / w_i) - 1]

The sum of logarithms is one logarithm: that of the product of all V_i / w_i. The product's exponent is counted apart,
so that it cannot overflow while each V_i / w_i is between 1e-9 and 1e9. A logarithm of each number would take most of
the time.
"""

import numpy as np
import numpy.typing as npt

from kgcore.loops.compiled import Array, exact_loop, exact_part, loop

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


@loop
def divergences(queries: Array, entities: Array, found: Array, start: int, stop: int) -> None:
    """Fill found (b, q, c) with the negative scores of the blocks [start, stop).

    queries (b, q, 3k), entities (b, c, 2k). The inner loops run over the queries of a block: there are more of them
    than entities.
    """
    k, count, size = entities.shape[2] // 2, queries.shape[1], entities.shape[1]
    half, one = np.float32(0.5), np.float32(1)
    means, variances, weights = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    sums, products = np.empty((size, count), np.float32), np.empty((size, count), np.float32)
    exponents, bits = np.empty((size, count), np.int32), products.view(np.int32)
    for block in range(start, stop):
        sums[:], products[:], exponents[:] = 0, 1, 0
        for i in range(k):
            for j in range(count):
                means[j], variances[j] = queries[block, j, i], queries[block, j, k + i]
                weights[j] = one / queries[block, j, 2 * k + i]
            for row in range(size):
                mean, variance = entities[block, row, i], entities[block, row, k + i]
                for j in range(count):
                    ratio, difference = (variances[j] + variance) * weights[j], means[j] - mean
                    sums[row, j] += (ratio - one) + difference * difference * weights[j]
                    products[row, j] *= ratio
                if i % TERMS == TERMS - 1 or i == k - 1:
                    _take_exponents(products[row], bits[row], exponents[row])
        for j in range(count):
            for row in range(size):
                logarithm = np.float32(exponents[row, j]) * LOG_2 + np.log(products[row, j])
                found[block, j, row] = half * (sums[row, j] - logarithm)


@loop
def divergence_gradients(
    queries: Array, entities: Array, gradient: Array, of_queries: Array, of_entities: Array, start: int, stop: int
) -> None:
    """Fill of_queries (b, q, 3k) and of_entities (b, c, 2k) with the gradients of the blocks [start, stop).

    gradient  (b, q, c) of the results of `divergences`
    """
    k, count, size = entities.shape[2] // 2, queries.shape[1], entities.shape[1]
    half, one, zero = np.float32(0.5), np.float32(1), np.float32(0)
    means, variances, weights = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    of_means, of_variances = np.empty(count, np.float32), np.empty(count, np.float32)
    of_weights, outer = np.empty(count, np.float32), np.empty((size, count), np.float32)
    for block in range(start, stop):
        for j in range(count):
            for row in range(size):
                outer[row, j] = gradient[block, j, row]
        for i in range(k):
            for j in range(count):
                means[j], variances[j] = queries[block, j, i], queries[block, j, k + i]
                weights[j] = one / queries[block, j, 2 * k + i]
            of_means[:], of_variances[:], of_weights[:] = 0, 0, 0
            for row in range(size):
                mean, variance, of_mean, of_variance = entities[block, row, i], entities[block, row, k + i], zero, zero
                for j in range(count):
                    g, total, scaled = outer[row, j], variances[j] + variance, (means[j] - mean) * weights[j]
                    by_variance = half * g * (weights[j] - one / total)
                    of_means[j] += g * scaled
                    of_mean -= g * scaled
                    of_variances[j] += by_variance
                    of_variance += by_variance
                    of_weights[j] += half * g * (weights[j] * (one - total * weights[j]) - scaled * scaled)
                of_entities[block, row, i], of_entities[block, row, k + i] = of_mean, of_variance
            for j in range(count):
                of_queries[block, j, i], of_queries[block, j, k + i] = of_means[j], of_variances[j]
                of_queries[block, j, 2 * k + i] = of_weights[j]
