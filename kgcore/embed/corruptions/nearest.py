"""Nearest-neighbour corruption: an entity whose embedding is close to that of the true entity."""

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.choice import RatedStrategy
from kgcore.embed.corruptions.uniform import Uniform
from kgcore.registries import STRATEGIES


@STRATEGIES.register("nearest")
class Nearest(RatedStrategy):
    """A strategy that draws 20 uniform candidates and keeps the one whose embedding is nearest to the true entity's.

    The distance is Euclidean. 20 is the default of `candidates`.

    Kotnis & Nastase 2017, nearest-neighbour sampling. They use the exact neighbours in a model that was trained
    beforehand. A sample of candidates needs no search over all entities, and works during training.
    """

    def __init__(self, graph: KnowledgeGraph, candidates: int = 20) -> None:
        super().__init__(graph, Uniform(graph), candidates)

    def rate(self, triples: Triples, column: int, offered: Ints) -> Floats:
        entities = self.model.embeddings.entities.numpy()
        differences = entities[offered] - entities[triples[:, column], None]
        distances: Floats = np.square(differences).sum(-1, dtype=np.float64)
        return -distances
