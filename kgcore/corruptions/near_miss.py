"""Near misses: corruptions with high scores by a model."""

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.corruptions.choice import Choice
from kgcore.corruptions.typed import Typed
from kgcore.graph import KnowledgeGraph
from kgcore.registries import STRATEGIES


@STRATEGIES.register("near_miss")
class NearMiss(Choice):
    """Keeps, of 20 typed corruptions, the one with the highest score f of the model; training facts are excluded.

    Zhang et al., "Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling", SIGIR 2013; Kotnis &
    Nastase 2017, near-miss sampling. In an incomplete graph, no other strategy draws as many true triples: read the
    audit before you fit a calibrator to these corruptions.
    """

    def __init__(self, graph: KnowledgeGraph, candidates: int = 20) -> None:
        super().__init__(graph, Typed(graph), candidates)
        self._known = graph.index(graph.train.positives)

    def rate(self, triples: Triples, column: int, offered: Ints) -> Floats:
        corrupted = np.repeat(triples, offered.shape[1], axis=0)
        corrupted[:, column] = offered.ravel()
        scores: Floats = self.model.score(corrupted)
        return np.where(self._known.contains(corrupted), -np.inf, scores).reshape(offered.shape)
