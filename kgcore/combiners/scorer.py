"""A model and a combiner as one scorer: the score of a triple is the log-odds that the combiner gives its evidence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Scores, Triples
from kgcore.combiners.base import Combined
from kgcore.evidence.base import Source, Tile
from kgcore.evidence.table import Features, Grid
from kgcore.graph import KnowledgeGraph
from kgcore.models.scorer import Bounds, PointwiseScorer
from kgcore.score_table import Evidence
from kgcore.workers import in_order

if TYPE_CHECKING:
    import torch

    from kgcore.models.trained import TrainedModel

OBJECTS_AT_ONCE, PAIRS_AT_ONCE = 512, 2**18  # of a tile
FEWEST = 8  # subjects, and objects, from which tiles save time


@dataclass(frozen=True)
class CombinedModel(PointwiseScorer):
    """The score of a triple is the log-odds that a combiner gives its evidence.

    The first score of a triple that is not in `judged` takes longer: it prepares the tables of the evidence, which are
    kept.

    combined  the fitted combiner
    trained   the model whose scores are among the evidence
    graph     the graph whose training facts are the evidence
    others    the further models whose scores are among the evidence, in the order of `combined.others`
    judged    triples (m, 3) and the log-odds (m,) that the combiner has given them before; None: none are stored
    """

    combined: Combined
    trained: "TrainedModel"
    graph: KnowledgeGraph
    others: "tuple[TrainedModel, ...]" = ()
    judged: tuple[Triples, Floats] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        return self.trained.sizes

    @property
    def embedding_models(self) -> "tuple[TrainedModel, ...]":
        return (self.trained, *self.others)

    def score(self, triples: Triples) -> Scores:
        if self.judged is not None and len(triples):
            keys, log_odds = self._judged
            asked = self.graph.all_known.keys(triples)
            places = np.searchsorted(keys, asked)
            if places.max() < len(keys) and (keys[places] == asked).all():
                return log_odds[places]
        return self.combined.scores(self.evidence(triples), triples[:, 1])

    def evidence(self, triples: Triples) -> Evidence:
        """Return the evidence of triples (n, 3)."""
        return self._features.evidence(triples)

    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
        """Bound scores as `Scorer.tiles` does: from the features that a tile shares.

        Memory: some tiles of PAIRS_AT_ONCE pairs, one more than there are threads.
        """
        if min(len(subjects), len(objects)) < FEWEST:
            yield from super().tiles(subjects, predicate, objects)
            return
        import torch

        width = min(len(objects), OBJECTS_AT_ONCE)
        blocks = [
            (slice(top, top + PAIRS_AT_ONCE // width), slice(left, left + width))
            for left in range(0, len(objects), width)
            for top in range(0, len(subjects), PAIRS_AT_ONCE // width)
        ]
        tiles = (Tile(subjects[rows], predicate, objects[columns], self._source.facts) for rows, columns in blocks)
        bounds_of_tiles = in_order(self._bounds, tiles, torch.get_num_threads())
        for (rows, columns), bounds in zip(blocks, bounds_of_tiles, strict=True):
            yield rows, columns, *bounds

    def _bounds(self, tile: Tile) -> tuple[Floats, Floats]:
        """Return bounds (n, m) of the scores of a tile. Those of special pairs are exact."""
        low, high = self.combined.bounds(Grid(self._features, tile))
        low[tile.special] = high[tile.special] = self.score(tile.at(tile.special))
        return low, high

    def fingerprint(self) -> str:
        return self._fingerprint

    def to(self, device: "torch.device") -> Self:
        others = tuple(other.to(device) for other in self.others)
        return replace(self, trained=self.trained.to(device), others=others)

    def cosines(self, entity: int) -> Floats:
        return self.trained.cosines(entity)

    @cached_property
    def _source(self) -> Source:
        return Source(self.graph, self.trained, self.others)

    @cached_property
    def _judged(self) -> tuple[Ints, Floats]:
        """The sorted keys of the judged triples, and their log-odds."""
        assert self.judged is not None
        triples, log_odds = self.judged
        keys = self.graph.all_known.keys(triples)
        order = np.argsort(keys, kind="stable")
        return keys[order], log_odds[order]

    @cached_property
    def _features(self) -> Features:
        return Features.of(self._source, self.combined.groups)

    @cached_property
    def _fingerprint(self) -> str:
        return self.combined.fingerprint()
