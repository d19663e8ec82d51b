"""The population of a question about missing facts: the unknown triples of some predicates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.graph import KnowledgeGraph
from kgcore.prediction.domains import Domains
from kgcore.prediction.pairs import PairSearch


@dataclass(frozen=True)
class Block:
    """All pairs of some subjects and objects of one predicate.

    subjects, objects  distinct entities (n,) and (m,), ascending
    """

    predicate: int
    subjects: Ints
    objects: Ints

    def holds(self, triples: Triples) -> Bools:
        """Return which triples (k, 3) are pairs of the block."""
        in_block: Bools = (
            (triples[:, 1] == self.predicate)
            & np.isin(triples[:, SUBJECT], self.subjects)
            & np.isin(triples[:, OBJECT], self.objects)
        )
        return in_block


@dataclass(frozen=True)
class Population:
    """The unknown triples of some blocks, one for each predicate, in ascending order of the predicates.

    The known facts of all splits are left out. So are pairs of an entity with itself, if no training fact of the
    predicate has such a pair.

    domains  the graph, and which triples of a predicate are left out
    blocks   the pairs
    """

    domains: Domains
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        predicates = [block.predicate for block in self.blocks]
        if predicates != sorted(set(predicates)):
            raise ValueError(f"the predicates of the blocks are {predicates}: they must ascend")

    @classmethod
    def of_predicates(cls, domains: Domains, predicates: Sequence[int]) -> "Population":
        """Return all missing facts of some predicates: the pairs of entities that can take the two places."""
        blocks = [Block(p, domains.of(p, SUBJECT), domains.of(p, OBJECT)) for p in sorted(predicates)]
        return cls(domains, tuple(blocks))

    @property
    def graph(self) -> KnowledgeGraph:
        """The graph."""
        return self.domains.graph

    def search(self, block: Block, top: int) -> PairSearch:
        """Return the search for the `top` candidates of a block with the highest scores."""
        left_out = self.domains.left_out(block.predicate)
        return PairSearch(block.subjects, block.objects, block.predicate, top=top, leave_out=left_out)

    @cached_property
    def sizes(self) -> Ints:
        """The number of candidates of each block."""
        sizes = []
        for block in self.blocks:
            left_out = self.domains.left_out(block.predicate).triples
            sizes.append(len(block.subjects) * len(block.objects) - int(block.holds(left_out).sum()))
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def known(self) -> Ints:
        """The number of known facts of all splits among the pairs of each block."""
        facts = self.graph.all_known.triples
        return np.array([int(block.holds(facts).sum()) for block in self.blocks], dtype=np.int64)

    @cached_property
    def positives(self) -> Triples:
        """The validation facts (n, 3) among the pairs of the blocks, each once, grouped by block."""
        facts = np.unique(self.graph.valid.positives, axis=0)
        facts = facts[~self.graph.index(self.graph.train.positives).contains(facts)]
        return np.concatenate([np.zeros((0, 3), dtype=np.int64), *(facts[b.holds(facts)] for b in self.blocks)])

    def with_positives(self, fewest: int) -> tuple["Population", list[int]]:
        """Return the blocks with at least `fewest` validation facts, and the predicates of the others."""
        counts = np.bincount(self.positives[:, 1], minlength=len(self.graph.predicates))
        kept = tuple(block for block in self.blocks if counts[block.predicate] >= fewest)
        dropped = [block.predicate for block in self.blocks if counts[block.predicate] < fewest]
        return Population(self.domains, kept), dropped


def off_type(graph: KnowledgeGraph, triples: Triples) -> Bools:
    """Return which triples (n, 3) have a subject or an object that no training fact of the predicate has there."""
    seen: Bools = np.ones(len(triples), dtype=bool)
    facts = graph.train.positives
    for predicate in np.unique(triples[:, 1]).tolist():
        rows, of_predicate = np.flatnonzero(triples[:, 1] == predicate), facts[facts[:, 1] == predicate]
        for column in (SUBJECT, OBJECT):
            seen[rows] &= np.isin(triples[rows, column], of_predicate[:, column])
    return ~seen
