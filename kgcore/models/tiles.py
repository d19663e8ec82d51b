"""Distances of many queries and many entities, one tile at a time: no tensor of queries x entities x d is made.

A tile of entities fits in the CPU's cache. It is transposed, so that the i-th numbers of all its entities are
contiguous, and one compiled loop adds up the terms of a distance (kgcore/loops/tiles.py). Threads share its queries.

Its width is no power of two: otherwise, the i-th numbers of an entity, for all i, are in the same few places of the
CPU's first cache, and the loop takes three times as long.
"""

import os
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.tiles import TileKernel
from kgcore.workers import Workers

TILE_QUERIES, TILE_ENTITIES = 256, 1040  # a multiple of 8, and at most 2040: see kgcore/tile_ranks.py
SMALL_QUERIES, SMALL_ENTITIES = 16, 64  # of the parts of a tile that fit in the cache without a kernel

Distance = Callable[[Tensor, int], Tensor]  # from differences, and the dimension of their d numbers


def filled(entities: Tensor) -> Tensor:
    """Return at most TILE_ENTITIES embeddings (c, d), then zeros: (TILE_ENTITIES, d)."""
    return pad(entities, (0, 0, 0, TILE_ENTITIES - len(entities)))


def columns_of(entities: Tensor) -> Tensor:
    """Return at most TILE_ENTITIES embeddings (c, d) as the columns of a tile (d, TILE_ENTITIES), then zeros."""
    return filled(entities).T.contiguous()


def tile_distances(distance: Distance, kernel: TileKernel | None, queries: Tensor, columns: Tensor) -> Tensor:
    """Return the distances of queries (q, d) to the columns of a tile: (q, TILE_ENTITIES).

    kernel  the loop of the distance; None: it has none
    """
    if kernel is None or not fits_cpu_loops(queries, columns):
        return by_parts(distance, queries, columns)
    return by_kernel(kernel, queries, columns)


def by_kernel(kernel: TileKernel, queries: Tensor, columns: Tensor) -> Tensor:
    """Return what a kernel fills for queries (q, n) and columns (d, c), float32 on the CPU: (q, c)."""
    found = queries.new_empty(len(queries), columns.shape[1])
    rows, own, filled = queries.contiguous().numpy(), columns.numpy(), found.numpy()
    share(lambda first, last: kernel(rows[first:last], own, filled[first:last]), len(rows), SMALL_QUERIES)
    return found


def share(work: Callable[[int, int], None], count: int, least: int = 1) -> None:
    """Call work(start, stop) for parts that cover range(count), one for each thread of PyTorch.

    least  fewest numbers of a part, but for the last one
    """
    threads = torch.get_num_threads()
    workers(os.getpid(), threads).run(work, count, max(least, -(-count // threads)))


@cache
def workers(process: int, threads: int) -> Workers:
    """Return the threads of a process, which no process that it forks can use."""
    return Workers(threads)


def by_tiles(
    scores: Callable[[Tensor, Tensor], Tensor], arranged: Callable[[Tensor], Tensor], queries: Tensor, entities: Tensor
) -> Tensor:
    """Return the scores of all pairs of queries and entities on a CPU: (q, n) and (c, d) -> (q, c).

    scores, arranged  as in `Tiling`
    """
    found = queries.new_empty(len(queries), len(entities))
    for left in range(0, len(entities), TILE_ENTITIES):
        tile = entities[left : left + TILE_ENTITIES]
        columns = arranged(filled(tile))
        for top in range(0, len(queries), TILE_QUERIES):
            block = scores(queries[top : top + TILE_QUERIES], columns)
            found[top : top + TILE_QUERIES, left : left + TILE_ENTITIES] = block[:, : len(tile)]
    return found


def by_parts(distance: Distance, queries: Tensor, columns: Tensor) -> Tensor:
    """Return the distances of queries (q, d) and columns (d, c) with plain PyTorch: the reference of the kernels."""
    found = queries.new_empty(len(queries), columns.shape[1])
    for top in range(0, len(queries), SMALL_QUERIES):
        rows = slice(top, top + SMALL_QUERIES)
        for left in range(0, columns.shape[1], SMALL_ENTITIES):
            part = slice(left, left + SMALL_ENTITIES)
            found[rows, part] = distance(queries[rows].unsqueeze(-1) - columns[:, part], 1)
    return found
