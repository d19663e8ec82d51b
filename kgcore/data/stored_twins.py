"""Triples with a twin in train: an inverse, a duplicate, or a mirror image by a symmetric predicate.

kgcal draws splits in which twins stay together, so that test does not ask what train answers. Then no validation fact
has a twin in train, but a candidate may have one, because somebody wrote a fact in one direction only. What is fitted
to validation facts and to candidates or corruptions would learn that a twin speaks against a triple. So a triple with a
twin is no corruption, and candidates with a twin stand for the true ones among them. How many are true follows from how
many training facts have a twin.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph, Split, TripleIndex

if TYPE_CHECKING:
    from kgcore.data.datasets.twins import Families

SYMMETRIC = 0.5  # share of the facts of a predicate whose mirror images are facts, from which on these are twins
LACKING = 0.5  # least part of the share of training facts with a twin that validation facts must lack


@dataclass(frozen=True)
class Twins:
    """The twins of triples in train, for a graph whose splits keep twins together.

    Facts are twins if their predicates repeat each other, both ways, or if one is the mirror image of the other by a
    predicate with at least SYMMETRIC of its facts both ways: see kgcore/data/datasets/twins.py.

    families  families of predicates that say the same
    train     the training facts, without those with a confidence below 1/2
    keys      (N,) distinct keys of the training facts, ascending: see `Families.keys`
    counts    (N,) number of training facts with each key
    shares    (R,) the share of the missing true triples of each predicate that have a twin in train, if each of them is
              missing by itself, by chance: (t - v) / (1 - v), with the shares t of its training facts and v of its
              validation facts that have one. It is 0 if v is large: then validation facts show what a twin says
    """

    families: "Families"
    train: TripleIndex
    keys: npt.NDArray[np.uint64]
    counts: Ints
    shares: Floats

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Self:
        """Compare the predicates of the training facts."""
        from kgcore.data.datasets.twins import Families, repeats_of  # loads scipy.sparse

        train, entities, predicates = _likely(graph, graph.train), len(graph.entities), len(graph.predicates)
        repeats = repeats_of(train.triples, entities, predicates, SYMMETRIC)
        families = Families.of(repeats, predicates, mutual=True)
        keys = np.unique(families.keys(train.triples, entities), return_counts=True)
        twins = cls(families, train, *keys, np.zeros(predicates))
        of_train, of_valid = (twins._share(facts.triples) for facts in (train, _likely(graph, graph.valid)))
        shares = (of_train - of_valid) / np.maximum(1 - of_valid, 1e-9)
        return replace(twins, shares=np.where(of_train - of_valid >= LACKING * of_train, shares, 0.0))

    def has_twin(self, triples: Triples) -> Bools:
        """Return which triples (n, 3) have a twin in train."""
        keys = self.families.keys(triples, self.train.num_entities)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        number = np.where(self.keys[places] == keys, self.counts[places], 0)
        found: Bools = number > self.train.contains(triples)
        return found

    def _share(self, facts: Triples) -> Floats:
        """Return the share (R,) of the facts (n, 3) of each predicate that have a twin in train; 0 without facts."""
        size = self.train.num_predicates
        counts = np.bincount(facts[:, 1], minlength=size)
        shares: Floats = np.bincount(facts[:, 1], self.has_twin(facts), size) / np.maximum(counts, 1)
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
        return found[self.has_twin(found)]

    def every(self) -> Triples:
        """Return the triples (n, 3) with a twin in train, of the predicates with a share above 0."""
        predicates = np.flatnonzero(self.shares).tolist()
        return np.concatenate([self.train.triples[:0], *(self.of_predicate(predicate) for predicate in predicates)])

    @cached_property
    def _by_predicate(self) -> tuple[Triples, Ints]:
        """The training facts by predicate, and where those of each predicate start; at the end, their number."""
        triples = self.train.triples
        triples = triples[np.argsort(triples[:, 1], kind="stable")]
        return triples, np.searchsorted(triples[:, 1], np.arange(self.train.num_predicates + 1))


def _likely(graph: KnowledgeGraph, split: Split) -> TripleIndex:
    return graph.index(split.triples[split.truth >= 0.5])
