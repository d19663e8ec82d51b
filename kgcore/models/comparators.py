"""Comparators: functions that compare a query with the embedding of an entity."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kgcore.loops import rows as row_loops
from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.tiles import TileKernel, l1_tile, l2_tile
from kgcore.models import tiles
from kgcore.models.chunks import L1, L2, Chunks, Dots, in_chunks
from kgcore.models.options import check_norm
from kgcore.workers import Workers

TILED_FROM = 2**22  # fewest pairs of query and entity for which compiled tiles save time, as in ranking
SETTLED_FROM = 2**20  # the same for distances whose near ties are settled by another formula
LARGEST_DIFFERENCES, LARGEST_ON_GPU = 2**20, 2**25  # numbers of the differences q - e at a time, without tiles
ROUNDING = 2.0**-24  # of a float32, relative


class Comparator(ABC):
    """A symmetric function that scores a query and an entity, higher = more plausible.

    broadcasts  whether `outer` needs memory for d numbers per pair, not only for the pair's score
    kind        the number of its loops over rows of a table, in kgcore/loops/rows.py; None: it has none
    chunks      its comparison of chunks in training, in kgcore/models/chunks.py; None: it has none
    """

    broadcasts = True
    kind: int | None = None
    chunks: type[Chunks] | None = None

    @abstractmethod
    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score the i-th query with the i-th entity: (..., d) and (..., d) -> (...)."""

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score every query with every candidate: (..., q, d) and (..., c, d) -> (..., q, c)."""
        return self.pairs(queries.unsqueeze(-2), entities.unsqueeze(-3))

    def of_chunks(self, queries: Tensor, entities: Tensor, workers: Workers) -> Tensor:
        """Return `outer`, computed for training: queries (b, c, d), entities (b, n, d) -> (b, c, n)."""
        if self.chunks is None or not fits_cpu_loops(queries, entities):
            return self.outer(queries, entities)
        return in_chunks(self.chunks, queries, entities, workers)

    def tiling(self, pairs: int, width: int) -> "Tiling":
        """Return how to score so many pairs on a CPU in tiles of TILE_ENTITIES and at most TILE_QUERIES.

        width  d, the length of a query
        """
        return Tiling(scores=self.outer if not self.broadcasts else self._outer_by_parts)

    def outer_of_parts(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score queries (q, d) with candidates (c, d), a part of the candidates at a time: (q, c)."""
        most = LARGEST_DIFFERENCES if queries.device.type == "cpu" else LARGEST_ON_GPU
        parts = torch.split(entities, max(1, most // max(1, queries.numel())))
        return torch.cat([Comparator.outer(self, queries, part) for part in parts], 1)

    def _outer_by_parts(self, queries: Tensor, entities: Tensor) -> Tensor:
        rows = max(1, LARGEST_DIFFERENCES // max(1, entities.numel()))
        return torch.cat([self.outer(part, entities) for part in torch.split(queries, rows)])


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How to score tiles of queries and entities.

    scores    function from queries (q, d) and an arranged tile of c entities to scores (q, c)
    arranged  function that arranges a tile of entities (c, d) for `scores`
    settled   function from n queries and n entities to the n scores that count. Ranks use it for the pairs whose order
              the scores of a tile leave open. None = the scores of tiles count
    times     largest difference of the score of a tile and the settled one, for each unit of the score
    plus      number to add to this difference
    """

    scores: Callable[[Tensor, Tensor], Tensor]
    arranged: Callable[[Tensor], Tensor] = lambda entities: entities
    settled: Callable[[Tensor, Tensor], Tensor] | None = None
    times: float = 0.0
    plus: float = 0.0


class DotProduct(Comparator):
    """The dot product, sum_i q_i e_i."""

    broadcasts = False
    kind, chunks = row_loops.DOT, Dots

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        return (queries * entities).sum(-1)

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        return queries @ entities.mT


class Distance(Comparator):
    """The negative of a distance that is computed from the differences q - e, -d(q - e). A subclass sets `distance`.

    distance  function of the differences and of the dimension of their d numbers. It is a sum of terms that are not
              negative, or the root of such a sum
    kernel    its loop over the columns of a tile; None: it has none
    """

    broadcasts = False
    distance: tiles.Distance
    kernel: TileKernel | None = None

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        return -self.distance(queries - entities, -1)

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        if torch.compiler.is_dynamo_compiling():  # inductor fuses the formula into one pass
            return super().outer(queries, entities)
        many = queries.dim() == 2 and len(queries) * len(entities) >= TILED_FROM
        if many and not torch.is_grad_enabled() and queries.device.type == "cpu":
            return tiles.by_tiles(self._tile, tiles.columns_of, queries, entities)
        return self.outer_at_once(queries, entities)

    def outer_at_once(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score every query with every candidate, as `outer` does, without tiles."""
        if queries.dim() != 2 or torch.is_grad_enabled():
            return super().outer(queries, entities)
        return self.outer_of_parts(queries, entities)

    def tiling(self, pairs: int, width: int) -> Tiling:
        if pairs < SETTLED_FROM:
            return Tiling(scores=self.outer_at_once)
        return Tiling(
            scores=self._tile, arranged=tiles.columns_of, settled=self.pairs, times=(2 * width + 64) * ROUNDING
        )

    def _tile(self, queries: Tensor, columns: Tensor) -> Tensor:
        return -tiles.tile_distances(self.distance, self.kernel, queries, columns)


def l1(difference: Tensor, dim: int) -> Tensor:
    """Return ||difference||_1."""
    return difference.abs().sum(dim)


def l2(difference: Tensor, dim: int) -> Tensor:
    """Return ||difference||_2, with a finite gradient at 0."""
    return difference.square().sum(dim).add(1e-12).sqrt()


class NegativeDistance(Distance):
    """The negative distance, -||q - e||_n, for n = 1 or 2. Raises InputError if n is neither 1 nor 2."""

    def __init__(self, norm: float) -> None:
        self.norm = check_norm(norm)
        self.distance = l1 if self.norm == 1 else l2
        self.kernel = l1_tile if self.norm == 1 else l2_tile
        self.kind, self.chunks = (row_loops.L1, L1) if self.norm == 1 else (row_loops.L2, L2)

    def tiling(self, pairs: int, width: int) -> Tiling:
        tiling = super().tiling(pairs, width)
        if self.norm == 2 and tiling.settled is not None:
            # cdist gives the root of a sum S, and tiles that of S + 1e-12. The roots differ by at most 1e-6
            return replace(tiling, settled=_cdist_of_pairs, plus=2e-6)
        return Tiling(scores=self.outer_at_once) if pairs < TILED_FROM else replace(tiling, settled=None, times=0)

    def outer_at_once(self, queries: Tensor, entities: Tensor) -> Tensor:
        if self.norm == 1:
            return -torch.cdist(queries, entities, p=1)
        return -torch.cdist(queries, entities, p=2, compute_mode="donot_use_mm_for_euclid_dist")


def _cdist_of_pairs(queries: Tensor, entities: Tensor) -> Tensor:
    near = torch.cdist(queries[:, None], entities[:, None], p=2, compute_mode="donot_use_mm_for_euclid_dist")
    return -near[:, 0, 0]


def as_blocks(tensor: Tensor) -> Any:
    """Return a tensor (..., r, c) as an array (b, r, c), which shares its memory if the tensor is contiguous."""
    return tensor.detach().reshape(-1, *tensor.shape[-2:]).contiguous().numpy()
