"""ConvKB's scores, compiled by Numba for the CPU: see kgcore/models/convkb.py.

A query has two rows, one of them of an entity, and is compared with the rows of candidates. PyTorch would keep the
filters' k numbers of every pair of a query and a candidate in memory, several times.

filters    (3, f): one number for each row of a query, and one for a candidate
bias       (f,)
weights    (f, k)
entities, predicates, candidates  (b, q, k), (b, q, k) and (b, c, k)
"""

import numpy as np

from kgcore.loops.compiled import Array, loop, part
from kgcore.loops.rows import ZERO


@part
def _fill_maps(filters: Array, bias: Array, entity: Array, predicate: Array, maps: Array) -> None:
    """Fill maps (f, k) with what a query adds to each filter, before the rectifier."""
    for f in range(len(maps)):
        first, second = filters[0, f], filters[1, f]
        for i in range(len(entity)):
            maps[f, i] = first * entity[i] + second * predicate[i] + bias[f]


@loop
def filter_scores(
    filters: Array, bias: Array, weights: Array, entities: Array, predicates: Array, candidates: Array, found: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Fill found (b, q, c) for queries [start, stop) of all b q queries."""
    size, maps = entities.shape[1], np.empty((len(bias), weights.shape[1]), np.float32)
    for query in range(start, stop):
        block, row = query // size, query % size
        _fill_maps(filters, bias, entities[block, row], predicates[block, row], maps)
        for column in range(candidates.shape[1]):
            total = ZERO
            for f in range(len(maps)):
                own = filters[2, f]
                for i in range(maps.shape[1]):
                    total += weights[f, i] * max(maps[f, i] + own * candidates[block, column, i], ZERO)
            found[block, row, column] = total


@loop
def filter_gradients(
    filters: Array, bias: Array, weights: Array, entities: Array, predicates: Array, candidates: Array, gradient: Array,
    to_filters: Array, to_bias: Array, to_weights: Array, to_entities: Array, to_predicates: Array,
    to_candidates: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill the gradients of entities, predicates and candidates of blocks [start, stop), and add to the other three.

    gradient  (b, q, c) of the results of `filter_scores`
    """
    k = weights.shape[1]
    maps, of_maps = np.empty((len(bias), k), np.float32), np.empty((len(bias), k), np.float32)
    for block in range(start, stop):
        to_candidates[block] = ZERO
        for row in range(entities.shape[1]):
            entity, predicate = entities[block, row], predicates[block, row]
            _fill_maps(filters, bias, entity, predicate, maps)
            of_maps[:] = ZERO
            for column in range(candidates.shape[1]):
                g, candidate, to_candidate = (
                    gradient[block, row, column],
                    candidates[block, column],
                    to_candidates[block, column],
                )
                if g == ZERO:
                    continue
                for f in range(len(maps)):
                    own, total = filters[2, f], ZERO
                    for i in range(k):
                        value = maps[f, i] + own * candidate[i]
                        slope = g if value > ZERO else ZERO
                        to_weights[f, i] += slope * value
                        slope *= weights[f, i]
                        of_maps[f, i] += slope
                        to_candidate[i] += own * slope
                        total += slope * candidate[i]
                    to_filters[2, f] += total
            to_entities[block, row], to_predicates[block, row] = ZERO, ZERO
            for f in range(len(maps)):
                first, second = filters[0, f], filters[1, f]
                of_first, of_second, of_bias = ZERO, ZERO, ZERO
                for i in range(k):
                    slope = of_maps[f, i]
                    to_entities[block, row, i] += first * slope
                    to_predicates[block, row, i] += second * slope
                    of_first += slope * entity[i]
                    of_second += slope * predicate[i]
                    of_bias += slope
                to_filters[0, f] += of_first
                to_filters[1, f] += of_second
                to_bias[f] += of_bias
