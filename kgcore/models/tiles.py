"""Distances of many queries and many entities, one tile at a time: no tensor of queries x entities x d is made.

A tile of entities fits in the CPU's cache. It is transposed, so that the i-th numbers of all its entities are
contiguous, and one compiled loop adds up the terms of a distance. All tiles have the same shape, so that a process
compiles one kernel for each distance and width.

Its width is no power of two: otherwise, the i-th numbers of an entity, for all i, are in the same few places of the
CPU's first cache, and the loop takes three times as long.
"""

from collections.abc import Callable
from functools import cache

from torch import Tensor
from torch.nn.functional import pad

from kgcore.compiling import compile_if_possible

TILE_QUERIES, TILE_ENTITIES = 256, 1040  # a multiple of 8, and at most 2040: see kgcore/tile_ranks.py
SMALL_QUERIES, SMALL_ENTITIES = 16, 64  # of the parts of a tile that fit in the cache without the compiler

Distance = Callable[[Tensor, int], Tensor]  # from differences, and the dimension of their d numbers


def filled(entities: Tensor) -> Tensor:
    """Return at most TILE_ENTITIES embeddings (c, d), then zeros: (TILE_ENTITIES, d)."""
    return pad(entities, (0, 0, 0, TILE_ENTITIES - len(entities)))


def columns_of(entities: Tensor) -> Tensor:
    """Return at most TILE_ENTITIES embeddings (c, d) as the columns of a tile (d, TILE_ENTITIES), then zeros."""
    return filled(entities).T.contiguous()


def tile_distances(distance: Distance, queries: Tensor, columns: Tensor) -> Tensor:
    """Return the distances of at most TILE_QUERIES queries (q, d) to the columns of a tile: (q, TILE_ENTITIES)."""
    padded = pad(queries, (0, 0, 0, TILE_QUERIES - len(queries)))
    return _kernel(distance, queries.shape[1])(padded, columns)[: len(queries)]


def distances(distance: Distance, queries: Tensor, entities: Tensor) -> Tensor:
    """Return the distances of all pairs of queries and entities on a CPU: (q, d) and (c, d) -> (q, c)."""
    found = queries.new_empty(len(queries), len(entities))
    for left in range(0, len(entities), TILE_ENTITIES):
        tile = entities[left : left + TILE_ENTITIES]
        columns = columns_of(tile)
        for top in range(0, len(queries), TILE_QUERIES):
            block = tile_distances(distance, queries[top : top + TILE_QUERIES], columns)
            found[top : top + TILE_QUERIES, left : left + TILE_ENTITIES] = block[:, : len(tile)]
    return found


@cache
def _kernel(distance: Distance, width: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the compiled kernel of a distance for one width: (q, width), (width, c) -> (q, c)."""

    def kernel(queries: Tensor, columns: Tensor) -> Tensor:
        return distance(queries.unsqueeze(-1) - columns, 1)

    return compile_if_possible(kernel, "ranking", instead=lambda queries, columns: by_parts(distance, queries, columns))


def by_parts(distance: Distance, queries: Tensor, columns: Tensor) -> Tensor:
    """Return the distances of queries (q, d) and columns (d, c) with plain PyTorch: the reference of the kernel."""
    found = queries.new_empty(len(queries), columns.shape[1])
    for top in range(0, len(queries), SMALL_QUERIES):
        rows = slice(top, top + SMALL_QUERIES)
        for left in range(0, columns.shape[1], SMALL_ENTITIES):
            part = slice(left, left + SMALL_ENTITIES)
            found[rows, part] = distance(queries[rows].unsqueeze(-1) - columns[:, part], 1)
    return found
