"""KBGAN: a generator that learns during training to pick the corruptions that the model scores high."""

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, Strategy
from kgcore.embed.corruptions.uniform import Uniform
from kgcore.embed.models.distmult import DistMult
from kgcore.embed.optimisers.base import RowAdam
from kgcore.registries import STRATEGIES


@STRATEGIES.register("kbgan")
class KBGAN(Strategy):
    """A strategy that picks one of `candidates` uniform corruptions with probability softmax(g(candidate)).

    The generator g is a DistMult model with its own tables. It learns by REINFORCE: the reward of a pick is the score
    that the trained model gives it, the baseline is the mean reward of the draw, and the gradient is
    (reward - baseline) d log softmax(g)(pick). The predicates of g start at 0, so that an untrained generator draws
    uniformly.

    Cai & Wang, "KBGAN: Adversarial Learning for Knowledge Graph Embeddings", NAACL 2018, algorithm 1. The default sizes
    are those of the publication. There, the baseline is the mean reward of the last epoch.
    Memory of a draw: n x count x candidates x k numbers.
    """

    by_predicate = True
    LEARNING_RATE = 1e-3

    def __init__(self, graph: KnowledgeGraph, candidates: int = 20, k: int = 50) -> None:
        super().__init__(graph)
        self._uniform, self._candidates, self._scorer = Uniform(graph), candidates, DistMult(k)
        sizes = {"entities": len(graph.entities), "predicates": len(graph.predicates)}
        self.tables = {name: RowAdam(torch.zeros(rows, k)) for name, rows in sizes.items()}
        self._drawn: dict[int, tuple[Triples, Ints, Ints]] = {}  # column -> triples, candidates, picks

    def start(self, rng: np.random.Generator) -> None:
        entities = self.tables["entities"].table
        entities.copy_(torch.from_numpy(rng.uniform(-self._scorer.scale, self._scorer.scale, entities.shape)))

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        shape = len(triples), count, self._candidates
        offered = self._uniform.draw(triples, column, count * self._candidates, rng).reshape(shape)
        tables = (self.tables["entities"].table, self.tables["predicates"].table)
        chances = self._log_chances(triples, column, offered, *tables).exp().double().cumsum(-1).numpy()
        tossed = rng.random((*shape[:2], 1)) * chances[..., -1:]
        picks = (chances <= tossed).sum(-1).clip(max=self._candidates - 1)
        self._drawn[column] = triples, offered, picks
        return np.take_along_axis(offered, picks[..., None], -1)[..., 0]

    def learn(self, column: int, rewards: Floats, step: int) -> None:
        triples, offered, picks = self._drawn.pop(column)
        distinct, places = np.unique(
            np.c_[triples[:, OBJECT - column], offered.reshape(len(triples), -1)], return_inverse=True
        )
        relations, predicates = np.unique(triples[:, 1], return_inverse=True)
        rows = torch.from_numpy(distinct), torch.from_numpy(relations)
        leaves = [
            table.table.index_select(0, r).requires_grad_() for table, r in zip(self.tables.values(), rows, strict=True)
        ]
        local = np.empty_like(triples)  # the same triples, as positions in the gathered rows
        places = places.reshape(len(triples), -1)
        local[:, 1], local[:, OBJECT - column], local[:, column] = predicates, places[:, 0], -1
        chances = self._log_chances(local, column, places[:, 1:].reshape(offered.shape), *leaves)
        picked = chances.gather(-1, torch.from_numpy(picks)[..., None])[..., 0]
        advantage = torch.from_numpy(rewards - rewards.mean()).float()
        gradients = torch.autograd.grad(-(advantage * picked).sum(), leaves)
        for table, r, gradient in zip(self.tables.values(), rows, gradients, strict=True):
            table.step(r, gradient, step, self.LEARNING_RATE)

    def _log_chances(
        self, triples: Triples, column: int, offered: Ints, entities: Tensor, predicates: Tensor
    ) -> Tensor:
        """Return the log softmax of the generator's scores of the offered entities: (n, count, candidates)."""
        kept, relation, every = (torch.from_numpy(ids) for ids in (triples[:, OBJECT - column], triples[:, 1], offered))
        query = self._scorer.object_query(entities[kept], predicates[relation])  # for both sides: DistMult is symmetric
        return torch.log_softmax(self._scorer.comparator.pairs(query[:, None, None], entities[every]), -1)
