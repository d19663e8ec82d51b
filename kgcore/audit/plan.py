"""The plan of an audit: planted errors among the training facts, and the folds of both."""

from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.audit.folds import fact_folds
from kgcore.config import AuditConfig
from kgcore.corruptions.base import corrupt
from kgcore.corruptions.mixture import Mixture
from kgcore.corruptions.sides import subject_shares
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split

FEWEST_PLANTED = 200  # planted errors, also in a small graph; fewer say too little about errors
MOST_PLANTED = 0.2  # share of the training facts that FEWEST_PLANTED must not exceed


@dataclass(frozen=True)
class AuditPlan:
    """The rows of an audit: the n training facts, then the m planted errors.

    graph    the whole graph
    triples  (n + m, 3) the rows
    fold     (n + m,) the fold of each row, from 0; KEPT for a fact that every model is trained on
    """

    graph: KnowledgeGraph
    triples: Triples
    fold: Ints

    @property
    def facts(self) -> int:
        """The number n of training facts."""
        return len(self.graph.train.positives)

    @property
    def planted(self) -> Bools:
        """Which rows are planted errors (n + m,)."""
        rows: Bools = np.arange(len(self.triples)) >= self.facts
        return rows

    def without_fold(self, number: int) -> KnowledgeGraph:
        """Return the graph to train the model of a fold on: its training triples are the rows of the other folds.

        number  the fold, from 0

        The facts that are left out remain known facts. The name of the graph is NAME-fold-I-of-K with I from 1, so that
        its models are not taken for models of the whole graph.
        """
        graph, train = self.graph, self.triples[self.fold != number]
        left_out = self.triples[(self.fold == number) & ~self.planted]
        name = f"{graph.name}-fold-{number + 1}-of-{self.fold.max() + 1}"
        facts = np.r_[graph.other_facts, left_out]
        return replace(graph, name=name, train=Split(train, np.ones(len(train))), other_facts=facts)


def plan_audit(graph: KnowledgeGraph, config: AuditConfig) -> AuditPlan:
    """Plant errors among the training facts, and divide both into folds. The same seed gives the same plan.

    Raises InputError if no fact can be left out, or if no error can be planted.
    """
    rng = np.random.default_rng(config.audit_seed)
    fold = fact_folds(graph, config.folds, rng)
    planted = plant(graph, config, rng)
    of_planted = rng.permutation(len(planted)) % config.folds
    return AuditPlan(graph, np.r_[graph.train.positives, planted], np.r_[fold, of_planted])


def plant(graph: KnowledgeGraph, config: AuditConfig, rng: np.random.Generator) -> Triples:
    """Return planted errors (m, 3): different corruptions of random training facts, without known facts.

    m is `config.planted` times the number of facts, but at least FEWEST_PLANTED. In a small graph this minimum is
    lower: the share MOST_PLANTED of the facts. m is smaller if fewer such corruptions were found.

    Raises InputError if none was found.
    """
    facts = graph.train.positives
    least = min(FEWEST_PLANTED, int(MOST_PLANTED * len(facts)))
    wanted = max(round(config.planted * len(facts)), least, 1)
    strategy, shares = Mixture(graph, config.planted_strategy), subject_shares(graph, config.planted_sides)
    drawn = corrupt(facts[rng.integers(0, len(facts), 2 * wanted)], 1, strategy, rng, shares).triples
    drawn = drawn[~graph.all_known.contains(drawn)]
    _, first = np.unique(drawn, axis=0, return_index=True)
    planted: Triples = drawn[np.sort(first)][:wanted]
    if not len(planted):
        raise InputError(f"no error can be planted in {graph.name}: all {2 * wanted:,} corruptions are known facts")
    return planted
