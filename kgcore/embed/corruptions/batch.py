"""Batch corruption: an entity from the triples that are corrupted together, as in the paper's published code."""

import numpy as np

from kgcore.arrays import Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Strategy
from kgcore.embed.corruptions.uniform import Uniform
from kgcore.registries import STRATEGIES


@STRATEGIES.register("batch")
class InBatch(Strategy):
    """A strategy whose candidates are the subjects and objects of the triples that are corrupted in the same draw.

    All candidates except the triple's own entity have equal probability. If there is no other candidate, the draw is
    uniform over all other entities. In training, the triples of a draw are the first positives of a step's chunks. In
    calibration, they are the validation positives, so that an entity without a validation triple is never drawn. The
    published code of the paper draws this way for synthetic isotonic calibration
    (docs/decisions/0001-paper-and-code.md).
    """

    by_batch = True

    def __init__(self, graph: KnowledgeGraph) -> None:
        super().__init__(graph)
        self._uniform = Uniform(graph)

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        if not len(triples):
            return np.empty((0, count), dtype=np.int64)
        pool, place = np.unique(triples[:, [SUBJECT, OBJECT]], return_inverse=True)
        replaced = place.reshape(-1, 2)[:, int(column == OBJECT)]
        if len(pool) == 1:
            self.fallbacks += len(triples) * count
            return self._uniform.draw(triples, column, count, rng)
        drawn = rng.integers(len(pool) - 1, size=(len(triples), count))
        drawn += drawn >= replaced[:, None]
        return pool[drawn]
