"""Comparisons of many queries and many entities, one tile at a time: no tensor of queries x entities x d is made.

A tile of entities fits in the CPU's cache. A distance has a loop over a transposed tile: the i-th numbers of all its
entities are contiguous. Each loop fills found (q, c) from queries (q, d) and columns (d, c), float32. The inner loop
runs over the columns, so that the compiler uses vectors without adding up in another order: a column has the same bits
wherever it stands in a tile. The plain form of a loop is the distance itself. Threads share the queries.

The width of a tile is no power of two: otherwise, the i-th numbers of an entity, for all i, are in the same few places
of the CPU's first cache, and the loop takes three times as long.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from kgcore.loops.compiled import Array, exact_loop
from kgcore.wings.fast_cpu.gaussians import LEAST_VARIANCE, divergence_tile
from kgcore.workers import Workers

TILE_QUERIES, TILE_ENTITIES = 256, 1040  # a multiple of 8, and at most 2040: see `count_mask`
SMALL_QUERIES = 16  # fewest queries of a thread
ROUNDING = 2.0**-24  # of a float32, relative

TileKernel = Callable[[Array, Array, Array], None]


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How to score tiles of queries and entities.

    scores    function from queries (q, d) and an arranged tile of c entities to scores (q, c)
    arranged  function that arranges a tile of entities (c, d) for `scores`
    settled   function from n queries and n entities to the n scores that count. Ranks use it for the pairs whose order
              the scores of a tile leave open. None = the scores of tiles count
    times     largest difference of the score of a tile and the settled one, for each unit of the score
    plus      number to add to this difference
    least     fewest pairs for which tiles take less time than the formula, if no rank is counted
    """

    scores: Callable[[Tensor, Tensor], Tensor]
    arranged: Callable[[Tensor], Tensor]
    settled: Callable[[Tensor, Tensor], Tensor] | None = None
    times: float = 0.0
    plus: float = 0.0
    least: float = 2**22


def tiling_of(comparison: str, settled: Callable[[Tensor, Tensor], Tensor], *tables: Tensor) -> Tiling | None:
    """Return the tiles of a comparison, by its `Comparator.name`; None: it has none, or the tables have no tiles.

    settled  the comparison of n queries with n entities
    tables   those of the model, whose first one has the embeddings of entities
    """
    if any(table.device.type != "cpu" or table.dtype != torch.float32 for table in tables):
        return None
    width = tables[0].shape[1]
    if comparison == "dot":
        return Tiling(scores=lambda queries, entities: queries @ entities.mT, arranged=filled, least=float("inf"))
    if comparison == "divergence":
        # A sum of k numbers of a tile and one of pairs err by at most this share of the sum of |V_i / w_i - 1| and of
        # d_i^2 / w_i. For a score f, that sum is at most 4 |f| + k, because |x - 1| <= 2 (x - log x - 1) + 1
        k = width // 2
        share = 2 * (k + 32) * ROUNDING
        scores = partial(_by_kernel, divergence_tile)
        return Tiling(scores=scores, arranged=_moments, settled=settled, times=4 * share, plus=k * share, least=2**16)
    if comparison not in KERNELS:
        return None
    scores = partial(_by_kernel, KERNELS[comparison])
    if comparison == "l1":
        return Tiling(scores=scores, arranged=columns_of)
    return Tiling(scores=scores, arranged=columns_of, settled=settled, times=(2 * width + 64) * ROUNDING)


def filled(entities: Tensor) -> Tensor:
    """Return at most TILE_ENTITIES embeddings (c, d), then zeros: (TILE_ENTITIES, d)."""
    return pad(entities, (0, 0, 0, TILE_ENTITIES - len(entities)))


def columns_of(entities: Tensor) -> Tensor:
    """Return at most TILE_ENTITIES embeddings (c, d) as the columns of a tile (d, TILE_ENTITIES), then zeros."""
    return filled(entities).T.contiguous()


def _moments(entities: Tensor) -> Tensor:
    mean, spread = entities.chunk(2, -1)
    return columns_of(torch.cat([mean, float(LEAST_VARIANCE) + softplus(spread)], -1))


def _by_kernel(kernel: TileKernel, queries: Tensor, columns: Tensor) -> Tensor:
    """Return the negative of what a kernel fills for queries (q, n) and columns (d, c): (q, c)."""
    found = queries.new_empty(len(queries), columns.shape[1])
    rows, tile, result = queries.contiguous().numpy(), columns.numpy(), found.numpy()
    threads = torch.get_num_threads()
    size = max(SMALL_QUERIES, -(-len(rows) // threads))
    _workers(os.getpid(), threads).run(
        lambda first, last: kernel(rows[first:last], tile, result[first:last]), len(rows), size
    )
    return found.neg_()


@cache
def _workers(process: int, threads: int) -> Workers:
    """Return the threads of a process, which no process that it forks can use."""
    return Workers(threads)


def by_tiles(tiling: Tiling, queries: Tensor, entities: Tensor) -> Tensor:
    """Return the scores of all pairs of queries and entities: (q, n) and (c, d) -> (q, c)."""
    scores = queries.new_empty(len(queries), len(entities))
    for left in range(0, len(entities), TILE_ENTITIES):
        tile = entities[left : left + TILE_ENTITIES]
        columns = tiling.arranged(tile)
        for top in range(0, len(queries), TILE_QUERIES):
            block = tiling.scores(queries[top : top + TILE_QUERIES], columns)
            scores[top : top + TILE_QUERIES, left : left + TILE_ENTITIES] = block[:, : len(tile)]
    return scores


def mean_of(scores: list[Tensor]) -> Tensor:
    """Return the scores, or the mean of the scores in both directions."""
    return scores[0] if len(scores) == 1 else (scores[0] + scores[1]) / 2


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
    width, tiny = queries.shape[1], np.float32(1e-12)
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
    half, tiny = queries.shape[1] // 2, np.float32(1e-12)
    for row in range(queries.shape[0]):
        found[row] = 0
        for i in range(half):
            a, b = queries[row, i], queries[row, i + half]
            for j in range(columns.shape[1]):
                x, y = a - columns[i, j], b - columns[i + half, j]
                found[row, j] += np.sqrt(x * x + y * y + tiny)


KERNELS = {"l1": l1_tile, "l2": l2_tile, "modulus": modulus_tile}
