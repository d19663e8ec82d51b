"""Triples with a twin in train: an inverse, a duplicate, or a mirror image by a symmetric predicate.

kgcal draws splits in which twins stay together, so that test does not ask what train answers. Then no validation fact
has a twin in train, but a candidate may have one, because somebody wrote a fact in one direction only. What is fitted
to validation facts and to candidates or corruptions would learn that a twin speaks against a triple. So a triple that a
twin makes likely is no corruption, and candidates with a twin stand for the true ones among them. How many are true
follows from how many training facts have a twin.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph, TripleIndex

if TYPE_CHECKING:
    from kgcore.data.datasets.twins import Families

SYMMETRIC = 0.5  # share of the facts of a predicate whose mirror images are facts, from which on these are twins
LIKELY = 0.5  # share of the triples with a twin that are facts, from which on another one is likely to be true


@dataclass(frozen=True)
class Twins:
    """The twins of triples in train, for a graph whose splits keep twins together.

    families  families of predicates that say the same
    train     the training facts
    keys      (N,) distinct keys of the training facts, ascending: see `Families.keys`
    counts    (N,) number of training facts with each key
    """

    families: "Families"
    train: TripleIndex
    keys: npt.NDArray[np.uint64]
    counts: Ints

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> "Twins | None":
        """Compare the predicates of the training facts. None if the splits of the graph may separate twins."""
        if not graph.twins_together:
            return None
        from kgcore.data.datasets.twins import Families, repeats_of  # loads scipy.sparse

        train, entities, predicates = graph.index(graph.train.positives), len(graph.entities), len(graph.predicates)
        families = Families.of(repeats_of(train.triples, entities, predicates, SYMMETRIC), predicates)
        return cls(families, train, *np.unique(families.keys(train.triples, entities), return_counts=True))

    def in_train(self, triples: Triples) -> Bools:
        """Return which triples (n, 3) have a twin in train."""
        keys = self.families.keys(triples, self.train.num_entities)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        number = np.where(self.keys[places] == keys, self.counts[places], 0)
        has_twin: Bools = number > self.train.contains(triples)
        return has_twin

    def shares(self, valid: Triples) -> Floats:
        """Return the share (R,) of the missing true triples of each predicate that have a twin in train.

        It is the share of the training facts that have a twin, as if each missing fact was missing by itself, by
        chance. If validation facts (n, 3) have twins in train, too, it is the share that they lack.
        """
        size = self.train.num_predicates
        of_train, of_valid = (
            np.bincount(facts[:, 1], self.in_train(facts), size)
            / np.maximum(np.bincount(facts[:, 1], minlength=size), 1)
            for facts in (self.train.triples, valid)
        )
        shares: Floats = np.clip((of_train - of_valid) / np.maximum(1 - of_valid, 1e-9), 0, 1)
        return shares

    def of_predicate(self, predicate: int) -> Triples:
        """Return the triples (k, 3) of a predicate that have a twin in train, in ascending order."""
        like = np.flatnonzero(self.families.family == self.families.family[predicate])
        triples, ends = self._by_predicate
        facts = np.concatenate([triples[ends[other] : ends[other + 1]] for other in like.tolist()])
        turned = self.families.turned[facts[:, 1]] != self.families.turned[predicate]
        subjects, objects = np.where(turned, facts[:, [2, 0]].T, facts[:, [0, 2]].T)
        if self.families.symmetric[predicate]:
            subjects, objects = np.r_[subjects, objects], np.r_[objects, subjects]
        found = np.stack([subjects, np.full(len(subjects), predicate), objects], axis=1)
        found = TripleIndex(found, self.train.num_entities, self.train.num_predicates).triples
        return found[self.in_train(found)]

    def chance(self, predicate: int) -> float:
        """Return the share of a predicate's triples with a twin in train that are training facts; 0 without triples.

        It stands for the chance that another one is true. It is small for a predicate that is a special case of another
        one: few cities of a country are its capital.
        """
        triples = self.of_predicate(predicate)
        return float(self.train.contains(triples).mean()) if len(triples) else 0.0

    def likely(self) -> Triples:
        """Return the triples (n, 3) with a twin in train, of predicates with a chance of at least LIKELY."""
        with_twins = np.unique(self.train.triples[self.in_train(self.train.triples), 1]).tolist()
        predicates = [predicate for predicate in with_twins if self.chance(predicate) >= LIKELY]
        return np.concatenate([self.train.triples[:0], *(self.of_predicate(predicate) for predicate in predicates)])

    @cached_property
    def _by_predicate(self) -> tuple[Triples, Ints]:
        """The training facts by predicate, and where those of each predicate start; at the end, their number."""
        triples = self.train.triples
        triples = triples[np.argsort(triples[:, 1], kind="stable")]
        return triples, np.searchsorted(triples[:, 1], np.arange(self.train.num_predicates + 1))


def likely_by_a_twin(graph: KnowledgeGraph) -> Triples:
    """Return `Twins.likely` of a graph (n, 3). None if its splits may separate twins."""
    twins = Twins.of(graph)
    return graph.train.triples[:0] if twins is None else twins.likely()
