"""The base class of strategies that draw several candidates and keep the best one, by a model or by the graph."""

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Strategy
from kgcore.embed.corruptions.uniform import Uniform

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

BLOCK = 200_000  # at most this many candidates are rated at once, to bound the memory


class RatedStrategy(Strategy):
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

    def distribution(self, triples: Triples, column: int) -> Floats | None:
        """Return the probabilities (n, E) of the entities: see `Strategy.distribution`.

        The best of c candidates has at most the rating r with the probability F(r)^c, if F(r) is the probability that
        one candidate has at most this rating. So the entities of rating r have F(r)^c - F(r-)^c together, and share it
        by their probability of being a candidate. Excluded candidates have the share x, and all are excluded with the
        probability x^c; then the draw is uniform.
        """
        chances = self._offer.distribution(triples, column)
        if chances is None:
            return None
        for predicate in np.unique(triples[:, 1]).tolist():
            rows = np.flatnonzero(triples[:, 1] == predicate)
            entities = np.flatnonzero((chances[rows] > 0).any(axis=0))
            size = max(1, BLOCK // len(entities))
            for block in (rows[start : start + size] for start in range(0, len(rows), size)):
                ratings = self.rate(triples[block], column, np.tile(entities, (len(block), 1)))
                uniform = self._uniform.distribution(triples[block], column)
                for row, row_ratings, other in zip(block.tolist(), ratings, uniform, strict=True):
                    best, none = best_of(chances[row, entities], row_ratings, self._candidates)
                    chances[row] = none * other
                    chances[row, entities] += best
        return chances


def best_of(chances: Floats, ratings: Floats, candidates: int) -> tuple[Floats, float]:
    """Return the probabilities (m,) that an entity is the best of some candidates, and the one that there is none.

    chances     (m,) probability of each entity in one draw of a candidate
    ratings     (m,) the ratings, higher = better; -inf excludes an entity
    candidates  number of draws, at least 1
    """
    _, place = np.unique(ratings, return_inverse=True)
    mass = np.bincount(place, chances)
    up_to = np.cumsum(mass) / mass.sum()
    best = np.diff(up_to**candidates, prepend=0.0)
    shared = best[place] * chances / np.where(mass > 0, mass, 1.0)[place]
    excluded = ratings == -np.inf
    none = float(shared[excluded].sum())
    return np.where(excluded, 0.0, shared), none
