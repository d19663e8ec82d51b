"""The plan of an audit: planted errors among the training facts, and the folds of both."""

from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.config import AuditConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.errors import InputError

KEPT = -1  # the fold of a fact that every model is trained on
FEWEST_PLANTED = 200  # planted errors, also in a small graph; fewer say too little about errors
MOST_PLANTED = 0.2  # share of the training facts that FEWEST_PLANTED must not exceed


def fact_folds(graph: KnowledgeGraph, folds: int, rng: np.random.Generator) -> Ints:
    """Assign the training facts to folds at random. Return the fold of each fact (n,), 0 to folds - 1, or KEPT.

    folds  number of folds K, at least 2

    The model of fold i trains on all facts but those of fold i. Each model must know every entity and every predicate.
    So a name must not have all its facts in one fold: if they are drawn into one fold, one of them moves to another
    fold. The move is impossible for the only fact of a name: this fact is KEPT.

    Raises InputError for fewer than 2 folds, or if no fact can be left out.
    """
    if folds < 2:
        raise InputError(f"folds is {folds}: it must be at least 2")
    triples, entities = graph.train.positives, len(graph.entities)
    fold = (rng.permutation(len(triples)) % folds).astype(np.int64)
    names = np.stack([triples[:, 0], triples[:, 2], entities + triples[:, 1]], axis=1)
    names[names[:, 0] == names[:, 1], 1] = -1  # a fact with one entity on both sides counts once for it
    present = names >= 0
    size = entities + len(graph.predicates)
    degree = np.bincount(names[present], minlength=size)
    held = np.zeros((folds, size), dtype=np.int64)  # facts of each name in each fold
    np.add.at(held, (np.broadcast_to(fold[:, None], names.shape)[present], names[present]), 1)
    emptied = (held[fold[:, None], names] == degree[names]) & present
    for row in np.flatnonzero(emptied.any(axis=1)):
        of_fact = names[row][present[row]]
        if (held[fold[row], of_fact] < degree[of_fact]).all():
            continue  # another fact of the name has moved already
        held[fold[row], of_fact] -= 1
        room = np.flatnonzero((held[:, of_fact] + 1 < degree[of_fact]).all(axis=1))
        fold[row] = rng.choice(room) if len(room) else KEPT
        if len(room):
            held[fold[row], of_fact] += 1
    if (fold == KEPT).all():
        raise InputError(
            f"none of the {len(fold):,} training facts of {graph.name} can be left out of training: each is the only "
            "fact of its subject, predicate or object"
        )
    return fold


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
        return np.arange(len(self.triples)) >= self.facts

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
    planted = _plant(graph, config, rng)
    of_planted = rng.permutation(len(planted)) % config.folds
    return AuditPlan(graph, np.r_[graph.train.positives, planted], np.r_[fold, of_planted])


def _plant(graph: KnowledgeGraph, config: AuditConfig, rng: np.random.Generator) -> Triples:
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
