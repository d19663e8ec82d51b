"""Typed corruption: another subject (object) of the same predicate."""

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Strategy
from kgcore.embed.corruptions.uniform import Uniform
from kgcore.registries import STRATEGIES


@STRATEGIES.register("typed")
class Typed(Strategy):
    """A strategy that draws each other entity of the predicate's observed domain or range with equal probability.

    The observed domain (range) is the set of subjects (objects) of the predicate in training. If it has no other
    entity, the draw is uniform over all other entities.

    Krompass et al., "Type-Constrained Representation Learning in Knowledge Graphs", ISWC 2015 (local closed world).
    Memory: one number for each distinct (predicate, subject) pair and each distinct (predicate, object) pair.

    seen  column -> these pairs, as ascending numbers predicate x E + entity
    """

    by_predicate = True

    def __init__(self, graph: KnowledgeGraph) -> None:
        super().__init__(graph)
        self._uniform = Uniform(graph)
        train = graph.train.triples
        self.seen = {column: np.unique(self._keys(train[:, 1], train[:, column])) for column in (SUBJECT, OBJECT)}

    def _keys(self, predicates: Ints, entities: Ints) -> Ints:
        return predicates * self.num_entities + entities

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        seen, predicates, replaced = self.seen[column], triples[:, 1], triples[:, column]
        first, beyond = (np.searchsorted(seen, self._keys(p, np.zeros_like(p))) for p in (predicates, predicates + 1))
        place = np.searchsorted(seen, self._keys(predicates, replaced))
        held = seen[place.clip(max=len(seen) - 1)] == self._keys(predicates, replaced)
        others = beyond - first - held
        drawn = first[:, None] + (rng.random((len(triples), count)) * others[:, None]).astype(np.int64)
        drawn += (drawn >= place[:, None]) & held[:, None]
        entities: Ints = seen[drawn.clip(max=len(seen) - 1)] % self.num_entities
        alone = others == 0
        if alone.any():
            entities[alone] = self._uniform.draw(triples[alone], column, count, rng)
            self.fallbacks += int(alone.sum()) * count
        return entities

    def distribution(self, triples: Triples, column: int) -> Floats:
        chances = np.zeros((len(triples), self.num_entities))
        for predicate in np.unique(triples[:, 1]).tolist():
            ends = np.searchsorted(
                self.seen[column], [predicate * self.num_entities, (predicate + 1) * self.num_entities]
            )
            members = self.seen[column][slice(*ends)] - predicate * self.num_entities
            chances[np.ix_(triples[:, 1] == predicate, members)] = 1
        chances[np.arange(len(triples)), triples[:, column]] = 0
        others = chances.sum(axis=1)
        chances[others > 0] /= others[others > 0, None]
        chances[others == 0] = self._uniform.distribution(triples[others == 0], column)
        return chances
