"""Frequent flyers: entities that are in far more answers than their facts let one expect."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import pdtrc

from kgcore.arrays import Ints, Triples
from kgcore.graph import KnowledgeGraph

ERROR = 0.01  # probability to report any entity, if the answers are spread as the facts are
FEWEST_ANSWERS = 3


@dataclass(frozen=True)
class Flyer:
    """An entity that is in more answers than expected.

    entity    its number
    column    SUBJECT or OBJECT: its part in these answers
    answers   number of answers
    expected  expected number of answers
    """

    entity: int
    column: int
    answers: int
    expected: float


def frequent_flyers(graph: KnowledgeGraph, triples: Triples, columns: Sequence[int]) -> list[Flyer]:
    """Return the frequent flyers among answers (n, 3), from the most answers down.

    columns  SUBJECT, OBJECT or both: the parts of the answers that were not given

    With n_p answers of predicate p, N_p training facts of it, and E_p entities that have one, an entity with d_p of
    these facts is expected in

        sum_p n_p (d_p + 1) / (N_p + E_p + 1)

    answers. It is reported if at least FEWEST_ANSWERS have it, and a Poisson variable with this mean is so large with a
    probability below ERROR, divided by the number of entities in the answers (Bonferroni).
    """
    found = []
    for column in columns:
        entities, answers = np.unique(triples[:, column], return_counts=True)
        expected = np.zeros(len(entities))
        for predicate, count in zip(*np.unique(triples[:, 1], return_counts=True), strict=True):
            facts = _facts(graph, int(predicate), column)
            expected += count * (facts[entities] + 1) / (facts.sum() + (facts > 0).sum() + 1)
        rare = pdtrc(answers - 1, expected) < ERROR / max(len(entities), 1)
        found += [
            Flyer(int(entities[i]), column, int(answers[i]), float(expected[i]))
            for i in np.flatnonzero(rare & (answers >= FEWEST_ANSWERS))
        ]
    return sorted(found, key=lambda flyer: (-flyer.answers, flyer.entity))


def _facts(graph: KnowledgeGraph, predicate: int, column: int) -> Ints:
    """Return the number of training facts (E,) of the predicate that each entity has in a column."""
    train = graph.train.positives
    return np.bincount(train[train[:, 1] == predicate, column], minlength=len(graph.entities))
