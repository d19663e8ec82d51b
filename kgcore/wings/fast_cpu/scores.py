"""Scores on the CPU: of triples by loops, and of all pairs of queries and entities by tiles, with the ranks of triples.

A model's formula stays one expression in its file: that is the plain form of its loop, and a test compares the two.
Complex rows (n, k) are stored as (n, 2k) real numbers, real parts first.

A tile of entities fits in the CPU's cache: no tensor of queries x entities x d is made. A distance has a loop over a
transposed tile: the i-th numbers of all its entities are contiguous. Each loop fills found (q, c) from queries (q, d)
and columns (d, c), float32. The inner loop runs over the columns, so that the compiler uses vectors without adding up
in another order: a column has the same bits wherever it stands in a tile. Threads share the queries. Filtered ranks
count candidates tile by tile, while their scores are in the cache, and keep no score.

The width of a tile is no power of two: otherwise, the i-th numbers of an entity, for all i, are in the same few places
of the CPU's first cache, and the loop takes three times as long.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from kgcore.arrays import Floats, Ints
from kgcore.loops.compiled import Array, fits_cpu_loops, loop
from kgcore.wings.fast_cpu.comparisons import MODULUS_PLUS, TILE_LOOPS, TileLoop
from kgcore.wings.fast_cpu.gaussians import LEAST_VARIANCE, divergence_tile
from kgcore.workers import Workers

ScoreLoop = Callable[..., None]
TILE_QUERIES, TILE_ENTITIES = 256, 1040  # a multiple of 8, and at most 2040: see `count_mask`
SMALL_QUERIES = 16  # fewest queries of a thread
ROUNDING = 2.0**-24  # of a float32, relative
MULTIPLE = 64  # rows of a product of matrices: see kgcore/embed/models/base.py
MOST_COUNTS = 3  # a third count is needed only if equal products of matrices differ in their bits


@loop
def complex_products(subjects: Array, predicates: Array, objects: Array, found: Array) -> None:
    """Fill found (n,) with Re(sum_i r_i s_i conj(o_i)): see kgcore/embed/models/complex.py."""
    k = subjects.shape[1] // 2
    for row in range(len(found)):
        total = np.float32(0)
        for i in range(k):
            re, im, r_re, r_im = subjects[row, i], subjects[row, k + i], predicates[row, i], predicates[row, k + i]
            total += (re * r_re - im * r_im) * objects[row, i] + (re * r_im + im * r_re) * objects[row, k + i]
        found[row] = total


@loop
def turned_distances(subjects: Array, turns: Array, objects: Array, found: Array) -> None:
    """Fill found (n,) with sum_i |r_i s_i - o_i|: see `modulus` in kgcore/embed/models/rotate.py."""
    k = subjects.shape[1] // 2
    for row in range(len(found)):
        total = np.float32(0)
        for i in range(k):
            re, im, cos, sin = subjects[row, i], subjects[row, k + i], turns[row, i], turns[row, k + i]
            across = re * cos - im * sin - objects[row, i]
            along = re * sin + im * cos - objects[row, k + i]
            total += np.sqrt(across * across + along * along + MODULUS_PLUS)
        found[row] = total


def turns(phases: Tensor) -> Tensor:
    """Return the rotations exp(i phase) of phases (n, k): (n, 2k)."""
    return torch.cat([phases.cos(), phases.sin()], -1)


class FastScores:
    """The scores of triples by a loop.

    loop        fills the scores, up to `factor`, from the rows of subjects, predicates and objects
    predicates  the table of predicates, as the loop needs it
    """

    def __init__(self, loop: ScoreLoop, factor: float, entities: Tensor, predicates: Tensor) -> None:
        self._loop, self._factor, self._entities, self._predicates = loop, factor, entities, predicates

    def __call__(self, triples: Tensor) -> Tensor:
        """Return the scores (n,) of triples (n, 3)."""
        s, p, o = triples.unbind(1)
        tables = (self._entities, self._predicates, self._entities)
        rows = [table.index_select(0, ids).numpy() for table, ids in zip(tables, (s, p, o), strict=True)]
        scores = self._entities.new_empty(len(triples))
        self._loop(*rows, scores.numpy())
        return scores * self._factor


def fast_scores(name: str, model: Any, entities: Tensor, predicates: Tensor) -> FastScores | None:
    """Return the scores of a registered model by its loop; None: the model or the device has no loop."""
    if not fits_cpu_loops(entities, predicates):
        return None
    if name in ("complex", "hole_complex"):
        return FastScores(complex_products, model.factor, entities, predicates)
    if name == "rotate" and model.comparator.name == "modulus":
        return FastScores(turned_distances, -1.0, entities, turns(predicates))
    return None


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
    if comparison not in TILE_LOOPS:
        return None
    scores = partial(_by_kernel, TILE_LOOPS[comparison])
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


def _by_kernel(kernel: TileLoop, queries: Tensor, columns: Tensor) -> Tensor:
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


class TiledQueries:
    """Queries of n triples. A model with inverse predicates has two for each triple; its score is the mean of theirs.

    points  one or two tensors of queries (n, d). Zeros fill them up to a multiple of MULTIPLE rows, so that no score
            depends on n
    """

    def __init__(self, points: list[Tensor], tiling: Tiling) -> None:
        self.count, self.tiling = len(points[0]), tiling
        self._points = [pad(rows, (0, 0, 0, -self.count % MULTIPLE)) for rows in points]

    def scores(self, arranged: Tensor) -> Tensor:
        """Score every query with every entity of an arranged tile: (n, TILE_ENTITIES)."""
        return mean_of([self.tiling.scores(points, arranged) for points in self._points])[: self.count]

    def settled(self, rows: Tensor, entities: Tensor) -> Tensor:
        """Return the settled scores of the queries `rows` (m,) with one entity (m, d) each: (m,)."""
        assert self.tiling.settled is not None
        return mean_of([self.tiling.settled(points.index_select(0, rows), entities) for points in self._points])

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
        self._places = torch.from_numpy(rows[order] * TILE_ENTITIES + entities[order] % TILE_ENTITIES)
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
            rows, columns = (torch.from_numpy(found) for found in np.divmod(part, TILE_ENTITIES))
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
        return (1 + self.higher + self.equal / 2).numpy()


def count_tiles(sides: list[Side], entities: Tensor) -> None:
    """Count the candidates of all sides among the entities (E, d). All sides have the same tiling."""
    arranged, waiting = sides[0].queries.tiling.arranged, sides
    for attempt in range(MOST_COUNTS):
        for start in range(0, len(entities), TILE_ENTITIES):
            tile = entities[start : start + TILE_ENTITIES]
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
