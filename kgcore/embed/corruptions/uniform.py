"""Uniform corruption: any other entity."""

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.embed.corruptions.base import Strategy
from kgcore.registries import STRATEGIES


@STRATEGIES.register("uniform")
class Uniform(Strategy):
    """A strategy that draws every other entity with probability 1 / (E - 1).

    Bordes et al., NIPS 2013; paper, section 4.
    """

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        drawn = rng.integers(self.num_entities - 1, size=(len(triples), count))
        drawn += drawn >= triples[:, column, None]
        return drawn

    def distribution(self, triples: Triples, column: int) -> Floats:
        chances = np.full((len(triples), self.num_entities), 1 / (self.num_entities - 1))
        chances[np.arange(len(triples)), triples[:, column]] = 0
        return chances
