"""The base class of strategies that draw several candidates and keep the best one, by a model or by the graph."""

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.corruptions.base import Strategy
from kgcore.corruptions.uniform import Uniform
from kgcore.graph import KnowledgeGraph

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

BLOCK = 200_000  # at most this many candidates are rated at once, to bound the memory


class Choice(Strategy):
    """A strategy that lets another strategy draw `candidates` entities, and keeps the one with the highest rating.

    A rating of -inf excludes a candidate. If all are excluded, the draw is uniform. Ratings that need a model use that
    of the last call of `see`: during training, this is the model at the end of the previous epoch.
    """

    by_predicate = True
    by_model = True

    def __init__(self, graph: KnowledgeGraph, offer: Strategy, candidates: int) -> None:
        super().__init__(graph)
        self._uniform, self._offer, self._candidates = Uniform(graph), offer, candidates
        self._seen: TrainedModel | None = None

    def see(self, model: "TrainedModel") -> None:
        self._seen = model

    @property
    def model(self) -> "TrainedModel":
        """The model that rates candidates. Raises ValueError if `see` was never called."""
        if self._seen is None:
            raise ValueError("this corruption strategy has no model: call `see` before the first draw")
        return self._seen

    @abstractmethod
    def rate(self, triples: Triples, column: int, offered: Ints) -> Floats:
        """Rate the entities (n, m) offered as replacements in the column of triples (n, 3): (n, m), higher = better."""

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        entities = np.empty((len(triples), count), dtype=np.int64)
        rows = max(1, BLOCK // max(1, count * self._candidates))
        for start in range(0, len(triples), rows):
            block = triples[start : start + rows]
            entities[start : start + rows] = self._pick(block, column, count, rng)
        return entities

    def _pick(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        shape = len(triples), count, self._candidates
        offered = self._offer.draw(triples, column, count * self._candidates, rng)
        ratings = self.rate(triples, column, offered).reshape(shape)
        picks = ratings.argmax(-1)[..., None]
        entities: Ints = np.take_along_axis(offered.reshape(shape), picks, -1)[..., 0]
        rows, places = np.nonzero(np.take_along_axis(ratings, picks, -1)[..., 0] == -np.inf)
        entities[rows, places] = self._uniform.draw(triples[rows], column, 1, rng)[:, 0]
        self.fallbacks += len(rows)
        return entities
