"""What a model gains over a forecast that knows nothing, for the populations that may be asked about.

Each gain is 0 for that forecast and 1 for a perfect one, so their mean needs no weights:

* negatives      1 - B / B0: B is the Brier score against hard negatives, B0 that of the constant base rate
* answers        the filtered mean reciprocal rank among all entities as subjects and as objects
* missing_facts  the gain of the ranks of validation facts among random missing facts of their predicate: `rank_gain`
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Probabilities, Triples, Weights
from kgcore.graph import KnowledgeGraph, TripleIndex
from kgcore.metrics.proper import brier
from kgcore.metrics.ranks import rank_gain, rank_metrics
from kgcore.models.trained import TrainedModel
from kgcore.population.draw import random_candidates
from kgcore.population.population import Population
from kgcore.prediction.domains import Domains
from kgcore.ranking import filtered_ranks

RANKED = 512  # facts whose ranks are computed, at most
COMPARED = 50  # candidates of these ranks for each training triple, so that a training takes much longer
BLOCK = 128  # facts that are ranked together: multiples of this number are ranked fast
FACTS = 5_000  # facts that are ranked among missing facts, at most
CANDIDATES = 50_000  # missing facts that are drawn, at most; there are not more than training triples


def brier_gain(q: Probabilities, truth: Probabilities, weights: Weights) -> float:
    """Return 1 - B / B0, at most 1, of probabilities (n,) for labels or confidences (n,) with weights (n,).

    B is the Brier score, and B0 that of the weighted mean of the truth (Brier skill score: Murphy 1973).
    """
    constant = np.full(len(truth), np.average(truth, weights=weights))
    return 1 - brier(q, truth, weights) / max(brier(constant, truth, weights), 1e-300)


@dataclass(frozen=True)
class AnswerRanks:
    """Validation facts (m, 3) whose ranks among all answers to their two queries are computed, without known facts."""

    known: TripleIndex
    facts: Triples

    @classmethod
    def of(cls, graph: KnowledgeGraph, rng: np.random.Generator) -> "AnswerRanks":
        """Draw facts: fewer if the graph has few training triples for each entity."""
        wanted = COMPARED * len(graph.train) // (2 * len(graph.entities))
        number = np.clip(wanted // BLOCK * BLOCK, BLOCK, RANKED)
        return cls(graph.known, rng.permutation(graph.valid.positives)[:number])

    def figures(self, trained: TrainedModel) -> dict[str, float]:
        """Return `mrr`, the filtered mean reciprocal rank, which is also the gain `answers`."""
        mrr = rank_metrics(filtered_ranks(trained, self.facts, self.known))["mrr"]
        return {"mrr": mrr, "answers": mrr}


@dataclass(frozen=True)
class MissingFacts:
    """Validation facts (m, 3), and random missing facts (n, 3) of their predicates."""

    facts: Triples
    candidates: Triples

    @classmethod
    def of(cls, graph: KnowledgeGraph, rng: np.random.Generator) -> "MissingFacts | None":
        """Draw missing facts. Return None if they or the validation facts are too few."""
        population = Population.asked(Domains(graph), None, 1)
        if population is None:
            return None
        facts, most = rng.permutation(population.positives)[:FACTS], min(CANDIDATES, len(graph.train))
        return cls(facts, random_candidates(population, most, rng))

    def figures(self, trained: TrainedModel) -> dict[str, float]:
        """Return `missing_facts`, the gain."""
        ranks, sizes = self._ranks(trained.score(self.facts), trained.score(self.candidates))
        return {"missing_facts": rank_gain(ranks, sizes)}

    def _ranks(self, of_facts: Floats, of_candidates: Floats) -> tuple[Floats, Floats]:
        """Return the rank (m,) of each fact among the candidates of its predicate and itself, and their number (m,)."""
        ranks, sizes = np.ones(len(of_facts)), np.ones(len(of_facts))
        for predicate in np.unique(self.facts[:, 1]).tolist():
            own = self.facts[:, 1] == predicate
            others = np.sort(of_candidates[self.candidates[:, 1] == predicate])
            below, up_to = (np.searchsorted(others, of_facts[own], side) for side in ("left", "right"))
            ranks[own], sizes[own] = 1 + len(others) - (below + up_to) / 2, 1 + len(others)
        return ranks, sizes
