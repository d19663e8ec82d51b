"""The shape of a graph: degrees, components, kinds of predicates, and predicates that repeat each other."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components

from kgcore.arrays import Ints, Triples, sorted_distinct
from kgcore.graph import KnowledgeGraph

SHARE = 0.8  # two predicates are inverse or duplicate if the one has this share of the other's facts
MANY = 1.5  # a predicate is 1-to-n if a subject has this many objects on average (Bordes et al. 2013, section 4.3)
MOST_FACTS = 5_000_000  # predicates of larger graphs are not compared with each other


@dataclass(frozen=True)
class Predicate:
    """A predicate in train.

    objects, subjects  mean number of objects of a subject, and of subjects of an object
    symmetry           share of the facts (s, p, o) with different ends for which (o, p, s) is a fact too
    """

    name: str
    facts: int
    objects: float
    subjects: float
    symmetry: float

    @property
    def cardinality(self) -> str:
        """1-to-1, 1-to-n, n-to-1 or n-to-n."""
        return f"{'n' if self.subjects >= MANY else '1'}-to-{'n' if self.objects >= MANY else '1'}"


@dataclass(frozen=True)
class Twin:
    """A predicate most of whose facts another predicate has too.

    inverse  whether the other predicate has them with subject and object exchanged
    share    the share of the facts, in [SHARE, 1]
    """

    predicate: str
    other: str
    inverse: bool
    share: float


@dataclass(frozen=True)
class Shape:
    """The shape of the train split.

    degrees      median, 90 % quantile and maximum of the number of facts of an entity
    single       share of the entities with one fact
    components   number of connected components
    largest      share of the entities in the largest component
    predicates   largest first
    twins        None if the graph is too large to compare its predicates
    leaking      number of test positives whose twin or mirror image is in train
    """

    degrees: tuple[int, int, int]
    single: float
    components: int
    largest: float
    predicates: tuple[Predicate, ...]
    twins: tuple[Twin, ...] | None
    leaking: int


def shape_of(graph: KnowledgeGraph) -> Shape:
    """Measure the train split of a graph, and which test positives follow from it by an inverse or duplicate."""
    train, entities = graph.train.positives, len(graph.entities)
    degrees = np.bincount(train[:, [0, 2]].reshape(-1), minlength=entities)
    median, ninety, most = (int(value) for value in np.quantile(degrees, (0.5, 0.9, 1.0), method="lower"))
    edges = coo_matrix((np.ones(len(train), dtype=bool), (train[:, 0], train[:, 2])), shape=(entities, entities))
    count, part = connected_components(edges, directed=False)
    pairs = _twins(train, graph) if len(train) <= MOST_FACTS else None
    twins = [
        Twin(graph.predicates[p], graph.predicates[q], inverse, share)
        for p, q, inverse, share in pairs or ()
        if not (inverse and p == q)
    ]
    return Shape(
        degrees=(median, ninety, most),
        single=float((degrees == 1).mean()),
        components=int(count),
        largest=float(np.bincount(part).max() / entities),
        predicates=_predicates(train, graph),
        twins=None if pairs is None else tuple(sorted(twins, key=lambda twin: -twin.share)),
        leaking=_leaking(graph, pairs or []),
    )


def _predicates(train: Triples, graph: KnowledgeGraph) -> tuple[Predicate, ...]:
    size, entities = len(graph.predicates), len(graph.entities)
    facts = np.bincount(train[:, 1], minlength=size)
    subjects, objects = (
        np.bincount(sorted_distinct(train[:, 1] * entities + train[:, end]) // entities, minlength=size)
        for end in (0, 2)
    )
    mirrored = graph.index(train).contains(train[:, [2, 1, 0]])
    apart = train[:, 0] != train[:, 2]
    different = np.bincount(train[apart, 1], minlength=size)
    symmetric = np.bincount(train[apart & mirrored, 1], minlength=size)
    found = [
        Predicate(
            graph.predicates[p],
            int(facts[p]),
            float(facts[p] / max(subjects[p], 1)),
            float(facts[p] / max(objects[p], 1)),
            float(symmetric[p] / max(different[p], 1)),
        )
        for p in np.argsort(-facts, kind="stable")
    ]
    return tuple(found)


def _twins(train: Triples, graph: KnowledgeGraph) -> list[tuple[int, int, bool, float]]:
    """Return predicate, other predicate, whether inverse, and share, of all pairs whose share is at least SHARE.

    A predicate that is its own inverse is symmetric.
    """
    entities, size = len(graph.entities), len(graph.predicates)
    forward, backward = train[:, 0] * entities + train[:, 2], train[:, 2] * entities + train[:, 0]
    keys = sorted_distinct(np.concatenate([forward, backward]))
    own = _incidence(train[:, 1], np.searchsorted(keys, forward), size, len(keys))
    other = _incidence(train[:, 1], np.searchsorted(keys, backward), size, len(keys))
    facts = np.maximum(np.bincount(train[:, 1], minlength=size), 1)
    found = []
    for inverse, matrix in ((False, own @ own.T), (True, own @ other.T)):
        common = matrix.tocoo()
        shares = common.data / facts[common.row]
        chosen = (shares >= SHARE) & (inverse | (common.row != common.col))
        places = zip(common.row[chosen], common.col[chosen], shares[chosen], strict=True)
        found += [(int(p), int(q), inverse, float(share)) for p, q, share in places]
    return found


def _incidence(predicates: Ints, pairs: Ints, size: int, width: int) -> csr_matrix:
    return csr_matrix((np.ones(len(pairs), dtype=np.int64), (predicates, pairs)), shape=(size, width))


def _leaking(graph: KnowledgeGraph, pairs: list[tuple[int, int, bool, float]]) -> int:
    """Return how many test positives have a twin in train: the same two entities, with an inverse or duplicate."""
    test, index = graph.test.positives, graph.index(graph.train.positives)
    leaks = np.zeros(len(test), dtype=bool)
    for p, q, inverse, _ in pairs:
        rows = np.flatnonzero(test[:, 1] == p)
        s, o = (test[rows, end] for end in ((2, 0) if inverse else (0, 2)))
        leaks[rows] |= index.contains(np.stack([s, np.full_like(s, q), o], axis=1))
    return int(leaks.sum())
