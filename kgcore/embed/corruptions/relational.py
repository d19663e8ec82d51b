"""Relational corruption: an entity that occurs as subject (object) of other predicates, but not of this one."""

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Strategy
from kgcore.embed.corruptions.uniform import Uniform
from kgcore.registries import STRATEGIES


@STRATEGIES.register("relational")
class Relational(Strategy):
    """A strategy that replaces a subject by a subject of another predicate in training, and an object likewise.

    The new entity is never a subject (object) of the triple's own predicate in training. `typed` never draws such an
    entity. The probability of an entity is proportional to the number of other predicates that have it as subject
    (object). If ten attempts fail, the draw is uniform. These corruptions are easy to distinguish from facts, and
    rarely true.

    After Kotnis & Nastase, "Analysis of the Impact of Negative Sampling on Link Prediction in Knowledge Graphs", 2017.
    Memory: one number for each distinct (predicate, subject) pair and each distinct (predicate, object) pair.
    """

    by_predicate = True
    ROUNDS = 10

    def __init__(self, graph: KnowledgeGraph) -> None:
        super().__init__(graph)
        self._uniform = Uniform(graph)
        train = graph.train.triples
        keys = {column: train[:, 1] * self.num_entities + train[:, column] for column in (SUBJECT, OBJECT)}
        self._seen = {column: np.unique(held) for column, held in keys.items()}

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        entities = np.full((len(triples), count), -1, dtype=np.int64)
        for _ in range(self.ROUNDS):
            rows, places = np.nonzero(entities < 0)
            if not len(rows):
                return entities
            entities_offered, fits = self._offer(triples[rows], column, rng)
            entities[rows[fits], places[fits]] = entities_offered[fits]
        rows, places = np.nonzero(entities < 0)
        entities[rows, places] = self._uniform.draw(triples[rows], column, 1, rng)[:, 0]
        self.fallbacks += len(rows)
        return entities

    def distribution(self, triples: Triples, column: int) -> Floats:
        """Return the probabilities (n, E) of the entities: see `Strategy.distribution`.

        An attempt offers an entity by its number of other predicates, and fails with the probability f if the entity is
        one of the triple's own predicate or the replaced one. An entity that an attempt offers and accepts with the
        probability a has the probability a (1 + f + ... + f^9) + f^10 / (E - 1), the last term from the uniform draw.
        """
        predicates, entities = np.divmod(self._seen[column], self.num_entities)
        chances = np.zeros((len(triples), self.num_entities))
        for predicate in np.unique(triples[:, 1]).tolist():
            of_predicate = predicates == predicate
            offered = np.bincount(entities[~of_predicate], minlength=self.num_entities).astype(np.float64)
            offered /= max(offered.sum(), 1.0)
            offered[entities[of_predicate]] = 0
            chances[triples[:, 1] == predicate] = offered
        chances[np.arange(len(triples)), triples[:, column]] = 0
        failed = (1 - chances.sum(axis=1, keepdims=True)).clip(0, 1)
        chances *= (failed[:, :, None] ** np.arange(self.ROUNDS)).sum(axis=-1)
        chances += failed**self.ROUNDS * self._uniform.distribution(triples, column)
        return chances

    def _offer(self, triples: Triples, column: int, rng: np.random.Generator) -> tuple[Ints, Bools]:
        """Draw an entity of another predicate for each triple. Return entities (n,) and a mask (n,) of valid ones."""
        seen, predicates = self._seen[column], triples[:, 1]
        first, beyond = (np.searchsorted(seen, p * self.num_entities) for p in (predicates, predicates + 1))
        others = len(seen) - (beyond - first)
        drawn = (rng.random(len(triples)) * others).astype(np.int64)
        drawn += np.where(drawn >= first, beyond - first, 0)
        entities: Ints = seen[drawn.clip(max=len(seen) - 1)] % self.num_entities
        keys = predicates * self.num_entities + entities
        place = np.searchsorted(seen, keys).clip(max=len(seen) - 1)
        fits: Bools = (others > 0) & (seen[place] != keys) & (entities != triples[:, column])
        return entities, fits
