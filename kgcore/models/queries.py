"""Queries of many triples, ready to be compared with one tile of entities after another."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from kgcore.models.base import Model, QueryModel
from kgcore.models.blocks import MULTIPLE
from kgcore.models.comparators import Tiling
from kgcore.models.inverse import BothWays
from kgcore.models.tiles import filled


@dataclass(frozen=True)
class Queries:
    """Queries of n triples. A model with inverse predicates has two for each triple; its score is the mean of theirs.

    count   n
    points  one or two tensors of queries (n or more, d). Zeros fill them up to a multiple of MULTIPLE rows, so that no
            score depends on n
    tiling  how to score tiles
    """

    count: int
    points: list[Tensor]
    tiling: Tiling

    def scores(self, arranged: Tensor) -> Tensor:
        """Score every query with every entity of an arranged tile: (n, TILE_ENTITIES)."""
        return self._mean([self.tiling.scores(points, arranged) for points in self.points])[: self.count]

    def settled(self, rows: Tensor, entities: Tensor) -> Tensor:
        """Return the settled scores of the queries `rows` (m,) with one entity (m, d) each: (m,)."""
        assert self.tiling.settled is not None
        return self._mean([self.tiling.settled(points.index_select(0, rows), entities) for points in self.points])

    def of_targets(self, entities: Tensor) -> Tensor:
        """Return the score of each query with its own entity (n, d): (n,)."""
        if self.tiling.settled is not None:
            return self.settled(torch.arange(self.count), entities)
        return self.scores(self.tiling.arranged(filled(entities))).diagonal()

    def _mean(self, scores: list[Tensor]) -> Tensor:
        return scores[0] if len(scores) == 1 else (scores[0] + scores[1]) / 2


def has_queries(model: Model) -> bool:
    """Return whether `queries_of` accepts the model."""
    return isinstance(model.model if isinstance(model, BothWays) else model, QueryModel)


def queries_of(model: Model, embeddings: tuple[Tensor, Tensor, Tensor], entities: int) -> tuple[Queries, Queries]:
    """Return the queries for the subjects of n triples, and those for their objects.

    embeddings  of the subjects, predicates and objects
    entities    number of entities to compare each query with
    """
    s, p, o = embeddings
    if isinstance(model, BothWays):
        inner, (p, inverse) = model.model, p.chunk(2, -1)
        assert isinstance(inner, QueryModel)
        subjects = [inner.subject_query(p, o), inner.object_query(o, inverse)]
        objects = [inner.object_query(s, p), inner.subject_query(inverse, s)]
    else:
        inner = model
        assert isinstance(inner, QueryModel)
        subjects, objects = [inner.subject_query(p, o)], [inner.object_query(s, p)]
    tiling = inner.comparator.tiling(len(s) * entities, s.shape[1])

    def queries(points: list[Tensor]) -> Queries:
        return Queries(len(s), [pad(rows, (0, 0, 0, -len(s) % MULTIPLE)) for rows in points], tiling)

    return queries(subjects), queries(objects)
