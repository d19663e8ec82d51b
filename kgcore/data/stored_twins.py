"""Triples with a twin in train: an inverse, a duplicate, or a mirror image by a symmetric predicate.

kgcal draws splits in which twins stay together, so that test does not ask what train answers. Then no validation fact
has a twin in train, but a candidate may have one, because somebody wrote a fact in one direction only. What is fitted
to validation facts and to candidates or corruptions would learn that a twin speaks against a triple. So a triple with a
twin is no corruption, and candidates with a twin stand for the true ones among them. How many are true follows from how
many training facts have a twin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples, sorted_distinct
from kgcore.data.graph import KnowledgeGraph, Split, TripleIndex

SYMMETRIC = 0.5  # share of the facts of a predicate whose mirror images are facts, from which on these are twins
WEAK = 1 / 3  # least share of the facts of a predicate that are facts of a special case, to be twins of these
LACKING = 0.5  # least part of the share of training facts with a twin that validation facts must lack


@dataclass(frozen=True)
class Twins:
    """The twins of triples in train, for a graph whose splits keep twins together.

    A fact is a twin of a triple of predicate p, with the same two entities, if it says that the triple holds: at least
    80 % of the facts of its predicate are facts of p, too, or half of them with subject and object exchanged; or it is
    the mirror image, and at least SYMMETRIC of the facts of p are stored both ways. See `repeats_of`. A fact of
    `mother` is a twin of a triple of `parent`. If p has no such twins, but is a special case itself, as `mother` is,
    the facts of the general predicate are its twins if at least WEAK of them are facts of p.

    sources  for each predicate, the predicates of its twins, and whether these have subject and object exchanged
    train    the training facts, without those with a confidence below 1/2
    shares   (R,) the share of the missing true triples of each predicate that have a twin in train, if each of them is
             missing by itself, by chance: (t - v) / (1 - v), with the shares t of its training facts and v of its
             validation facts that have one. It is 0 if v is large: then validation facts show what a twin says
    """

    sources: Sequence[Sequence[tuple[int, bool]]]
    train: TripleIndex
    shares: Floats

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Self:
        """Compare the predicates of the training facts."""
        from kgcore.data.datasets.twins import repeats_of  # loads scipy.sparse

        train, entities, predicates = _likely(graph, graph.train), len(graph.entities), len(graph.predicates)
        sources: list[list[tuple[int, bool]]] = [[] for _ in range(predicates)]
        repeats, sizes = repeats_of(train.triples, entities, predicates, SYMMETRIC), np.bincount(train.triples[:, 1])
        for repeat in repeats:
            sources[repeat.other].append((repeat.predicate, repeat.inverse))
        strong = [bool(found) for found in sources]
        for repeat in repeats:
            p, q = repeat.predicate, repeat.other
            if not strong[p] and repeat.share * sizes[p] >= WEAK * sizes[q]:
                sources[p].append((q, repeat.inverse))
        twins = cls(sources, train, np.zeros(predicates))
        of_train, of_valid = (twins._share(facts.triples) for facts in (train, _likely(graph, graph.valid)))
        shares = (of_train - of_valid) / np.maximum(1 - of_valid, 1e-9)
        return replace(twins, shares=np.where(of_train - of_valid >= LACKING * of_train, shares, 0.0))

    def has_twin(self, triples: Triples) -> Bools:
        """Return which triples (n, 3) have a twin in train."""
        found = np.zeros(len(triples), dtype=bool)
        for predicate in sorted_distinct(triples[:, 1]).tolist():
            rows = np.flatnonzero(triples[:, 1] == predicate) if self.sources[predicate] else found[:0]
            for other, inverse in self.sources[predicate]:
                s, o = triples[rows][:, [2, 0] if inverse else [0, 2]].T
                stored = self.train.contains(np.stack([s, np.full_like(s, other), o], axis=1))
                found[rows] |= stored & ((other != predicate) | (s != o))
        return found

    def _share(self, facts: Triples) -> Floats:
        """Return the share (R,) of the facts (n, 3) of each predicate that have a twin in train; 0 without facts."""
        size = self.train.num_predicates
        counts = np.bincount(facts[:, 1], minlength=size)
        shares: Floats = np.bincount(facts[:, 1], self.has_twin(facts), size) / np.maximum(counts, 1)
        return shares

    def of_predicate(self, predicate: int) -> Triples:
        """Return the triples (k, 3) of a predicate that have a twin in train, in ascending order."""
        triples, ends = self._by_predicate
        parts = [triples[:0]]
        for other, inverse in self.sources[predicate]:
            facts = triples[ends[other] : ends[other + 1], [2, 1, 0] if inverse else [0, 1, 2]]
            parts.append(np.stack([facts[:, 0], np.full(len(facts), predicate), facts[:, 2]], axis=1))
        found = TripleIndex(np.concatenate(parts), self.train.num_entities, self.train.num_predicates).triples
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
