"""The entity with the next number."""

import numpy as np

from kgcore.embed.corruptions.base import Strategy
from kgcore.registries import STRATEGIES


@STRATEGIES.register("neighbour")
class Neighbour(Strategy):
    def draw(self, triples, column, count, rng):
        return np.repeat((triples[:, [column]] + 1) % self.num_entities, count, axis=1)
