"""Dense graphs with known truth: entities have kinds, and facts depend on these. A graph knows some of the facts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kgcore.data.completeness import read_completeness
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Mixture
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.scores.table import ScoreTable, score_table


@dataclass(frozen=True)
class Dense:
    """A graph of subjects and objects, a model whose scores are higher for true triples, and the truth.

    truth  (R, n, n) whether subject i has the predicate r to object j. Objects are the entities n to 2 n - 1
    cold   column of the cold entities, as in `ScoreTable`
    sides  that corruptions replace
    """

    graph: KnowledgeGraph
    model: TrainedModel
    truth: np.ndarray
    cold: int | None = None
    sides: str = "both"

    def true(self, triples: np.ndarray) -> np.ndarray:
        """Return whether triples (n, 3) are true."""
        size = self.truth.shape[1]
        found = np.zeros(len(triples), dtype=bool)
        fits = (triples[:, 0] < size) & (triples[:, 2] >= size)
        s, p, o = triples[fits].T
        found[fits] = self.truth[p, s, o - size]
        return found

    def table(
        self, strategy: dict[str, float], seed: int, eta: int = 20, filtered: bool = True, completeness: str = ""
    ) -> ScoreTable:
        """Return the scores of valid, test, and their corruptions."""
        rng = np.random.default_rng(seed)
        made = corrupt_held_out(self.graph, eta, Mixture(self.graph, strategy), rng, self.sides, filtered)
        table = score_table(self.graph, made, self.model, self.cold)
        return replace(table, completeness=read_completeness(completeness, self.graph)) if completeness else table


def dense_graph(
    rng: np.random.Generator,
    size: int = 60,
    predicates: int = 4,
    kinds: int = 6,
    completeness: float | Sequence[float] = 1.0,
    cold: bool = False,
) -> Dense:
    """Draw a graph with `size` subjects and `size` objects.

    completeness  share of the true facts that the graph knows, of each predicate or of all: 80 % of these are in train,
                  10 % in valid and in test
    cold          whether the facts of valid and test are all known facts of 10 % of the objects each
    """
    chances = rng.beta(0.3, 0.9, size=(predicates, kinds, kinds))
    of_subject, of_object = rng.integers(kinds, size=(2, size))
    chance = chances[:, of_subject][:, :, of_object]
    truth = rng.random(chance.shape) < chance
    scores = np.log(chance + 0.02) + 1.5 * truth + rng.normal(size=chance.shape)
    p, s, o = np.nonzero(truth)
    facts = rng.permutation(np.stack([s, p, o + size], axis=1))
    known = np.zeros(len(facts), dtype=bool)
    for q, share in enumerate(np.broadcast_to(completeness, predicates)):
        rows = np.flatnonzero(facts[:, 1] == q)
        known[rows[: int(share * len(rows))]] = True
    facts = facts[known]
    order, number = (facts[:, 2] - size, size) if cold else (np.arange(len(facts)), len(facts))
    place = np.digitize(order, [int(0.8 * number), int(0.9 * number)])
    splits = [Split(part, np.ones(len(part))) for part in (facts[place == split] for split in range(3))]
    names = [f"e{i}" for i in range(2 * size)], [f"p{i}" for i in range(predicates)]
    subjects = scores.transpose(1, 0, 2).reshape(size, predicates * size)  # a block of numbers for each predicate
    objects = np.tile(np.eye(size), predicates)
    blocks = np.repeat(np.eye(predicates), size, axis=1)
    tables = (torch.tensor(values, dtype=torch.float32) for values in (np.concatenate([subjects, objects]), blocks))
    model = TrainedModel("distmult", predicates * size, Embeddings(*tables))
    return Dense(KnowledgeGraph("dense", *names, *splits), model, truth, 2 if cold else None)
