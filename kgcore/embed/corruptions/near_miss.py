"""Near-miss corruption: an entity that gives the corruption a high score by the model."""

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.choice import RatedStrategy
from kgcore.embed.corruptions.typed import Typed
from kgcore.registries import STRATEGIES


@STRATEGIES.register("near_miss")
class NearMiss(RatedStrategy):
    """A strategy that draws 20 typed corruptions and keeps the one that the model scores highest.

    Training facts are excluded. 20 is the default of `candidates`. In an incomplete graph, this strategy draws more
    true triples than any other: read the audit before you fit a calibrator to its corruptions.

    Zhang et al., "Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling", SIGIR 2013; Kotnis &
    Nastase 2017, near-miss sampling.
    """

    def __init__(self, graph: KnowledgeGraph, candidates: int = 20) -> None:
        super().__init__(graph, Typed(graph), candidates)
        self._known = graph.index(graph.train.positives)

    def rate(self, triples: Triples, column: int, offered: Ints) -> Floats:
        corrupted = np.repeat(triples, offered.shape[1], axis=0)
        corrupted[:, column] = offered.ravel()
        scores: Floats = self.model.score(corrupted)
        return np.where(self._known.contains(corrupted), -np.inf, scores).reshape(offered.shape)
