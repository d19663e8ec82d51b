"""Filtered ranks by tiles: candidates are counted while their scores are in the CPU's cache, and no score is kept."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from kgcore.arrays import Floats, Ints
from kgcore.wings.fast_cpu import tiles

MULTIPLE = 64  # rows of a product of matrices: see kgcore/models/base.py
MOST_COUNTS = 3  # a third count is needed only if equal products of matrices differ in their bits


class TiledQueries:
    """Queries of n triples. A model with inverse predicates has two for each triple; its score is the mean of theirs.

    points  one or two tensors of queries (n, d). Zeros fill them up to a multiple of MULTIPLE rows, so that no score
            depends on n
    """

    def __init__(self, points: list[Tensor], tiling: tiles.Tiling) -> None:
        self.count, self.tiling = len(points[0]), tiling
        self._points = [pad(rows, (0, 0, 0, -self.count % MULTIPLE)) for rows in points]

    def scores(self, arranged: Tensor) -> Tensor:
        """Score every query with every entity of an arranged tile: (n, TILE_ENTITIES)."""
        return tiles.mean_of([self.tiling.scores(points, arranged) for points in self._points])[: self.count]

    def settled(self, rows: Tensor, entities: Tensor) -> Tensor:
        """Return the settled scores of the queries `rows` (m,) with one entity (m, d) each: (m,)."""
        assert self.tiling.settled is not None
        return tiles.mean_of([self.tiling.settled(points.index_select(0, rows), entities) for points in self._points])

    def of_targets(self, entities: Tensor) -> Tensor:
        """Return the score of each query with its own entity (n, d): (n,)."""
        if self.tiling.settled is not None:
            return self.settled(torch.arange(self.count), entities)
        return self.scores(self.tiling.arranged(entities)).diagonal()


@dataclass
class Side:
    """The candidates for one side of n triples: how many have a higher score than the triple, and how many the same.

    targets  (n,) the subject, or the object, of each triple
    facts    (row, entity) of each known fact, which is no candidate
    table    (E, d) the embeddings of all entities
    """

    queries: TiledQueries
    targets: Ints
    facts: tuple[Ints, Ints]
    table: Tensor
    own: Tensor = field(init=False)
    higher: Tensor = field(init=False)
    equal: Tensor = field(init=False)

    def __post_init__(self) -> None:
        own = np.arange(len(self.targets)), self.targets
        rows, entities = (np.concatenate(parts) for parts in zip(self.facts, own, strict=True))
        order = np.argsort(entities, kind="stable")
        self._left_out = entities[order]
        self._places = torch.from_numpy(rows[order] * tiles.TILE_ENTITIES + entities[order] % tiles.TILE_ENTITIES)
        self._restart(self.queries.of_targets(self.table.index_select(0, torch.from_numpy(self.targets))))

    def _restart(self, own: Tensor) -> None:
        tiling = self.queries.tiling
        slack = torch.where(own.isinf(), 0, own.abs() * tiling.times + tiling.plus)
        self.own, self._lowest, self._highest = own, (own - slack)[:, None], (own + slack)[:, None]
        self._seen = torch.full_like(own, torch.nan)
        self.higher, self.equal = (torch.zeros(len(own), dtype=torch.int64) for _ in range(2))

    def count(self, arranged: Tensor, start: int, size: int) -> None:
        """Count the candidates among the entities from `start` on, a tile of `size` entities."""
        scores = self.queries.scores(arranged).contiguous()
        self._see(scores, start, size)
        first, last = np.searchsorted(self._left_out, (start, start + size))
        scores.view(-1).index_fill_(0, self._places[first:last], torch.nan)  # NaN is neither higher nor equal
        scores[:, size:] = torch.nan
        higher, reaching = scores > self._highest, scores >= self._lowest
        self.higher += _count(higher)
        if self.queries.tiling.settled is None:
            self.equal += _count(reaching.logical_xor_(higher))
        elif len(close := np.flatnonzero(reaching.logical_xor_(higher).numpy())):
            self._settle(close, start)

    def _see(self, scores: Tensor, start: int, size: int) -> None:
        """Note the scores of the triples themselves in this tile."""
        [rows] = np.nonzero((self.targets >= start) & (self.targets < start + size))
        own = torch.from_numpy(rows)
        self._seen[own] = scores[own, torch.from_numpy(self.targets[rows] - start)]

    def _settle(self, places: Ints, start: int) -> None:
        """Compare the pairs at these places of the tile, whose scores are too close, by their settled scores."""
        most = max(1, 2**20 // self.table.shape[1])
        for part in np.split(places, range(most, len(places), most)):
            rows, columns = (torch.from_numpy(found) for found in np.divmod(part, tiles.TILE_ENTITIES))
            scores = self.queries.settled(rows, self.table.index_select(0, columns + start))
            own = self.own.index_select(0, rows)
            self.higher += torch.bincount(rows[scores > own], minlength=len(self.own))
            self.equal += torch.bincount(rows[scores == own], minlength=len(self.own))

    def done(self) -> bool:
        """Return whether the counts are final. Otherwise every tile must be counted again.

        Without settled scores, the score of a triple must have the same bits in its tile and in `own`.
        """
        same = self.queries.tiling.settled is not None or torch.equal(self._seen.nan_to_num(), self.own.nan_to_num())
        if not same:
            self._restart(self._seen)
        return same

    def ranks(self) -> Floats:
        """Return the ranks (n,): 1 + #{higher} + #{equal} / 2."""
        ranks: Floats = (1 + self.higher + self.equal / 2).numpy()
        return ranks


def count_tiles(sides: list[Side], entities: Tensor) -> None:
    """Count the candidates of all sides among the entities (E, d). All sides have the same tiling."""
    arranged, waiting = sides[0].queries.tiling.arranged, sides
    for attempt in range(MOST_COUNTS):
        for start in range(0, len(entities), tiles.TILE_ENTITIES):
            tile = entities[start : start + tiles.TILE_ENTITIES]
            columns = arranged(tile)
            for side in waiting:
                side.count(columns, start, len(tile))
        if attempt + 1 == MOST_COUNTS or not (waiting := [side for side in waiting if not side.done()]):
            return


def _count(mask: Tensor) -> Tensor:
    """Return the number of true entries of each row (n, w) -> (n,), for w a multiple of 8 that is at most 2040.

    Every byte of a word of 8 bytes counts every eighth column. No byte overflows, because it counts at most 255.
    """
    words = mask.view(torch.int64).sum(1, keepdim=True)
    return words.view(torch.uint8).sum(1)
