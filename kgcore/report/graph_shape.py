"""The shape of a graph: degrees, components, kinds of predicates, and predicates that repeat each other."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from kgcore.arrays import Floats, Ints, Probabilities, Triples, sorted_distinct
from kgcore.datasets.twins import Families, Repeat, repeats_of
from kgcore.graph import KnowledgeGraph, Split

MANY = 1.5  # a predicate is 1-to-n if a subject has this many objects on average (Bordes et al. 2013, section 4.3)
BINS = 10


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
class GraphShape:
    """The shape of the train split, and the twins among all facts.

    degrees      median, 90 % quantile and maximum of the number of facts of an entity
    single       share of the entities with one fact
    components   number of connected components
    largest      share of the entities in the largest component
    predicates   largest first
    twins        None if the graph is too large to compare its predicates
    symmetric    number of predicates most of whose facts hold both ways, among all facts
    facts        number of facts of all splits
    twin_facts   number of them that have a twin: the same two entities, by an inverse, duplicate or symmetric predicate
    leaking      number of test positives with a twin in train
    """

    degrees: tuple[int, int, int]
    single: float
    components: int
    largest: float
    predicates: tuple[Predicate, ...]
    twins: tuple[Repeat, ...] | None
    symmetric: int
    facts: int
    twin_facts: int
    leaking: int


def shape_of(graph: KnowledgeGraph) -> GraphShape:
    """Measure the train split of a graph, and count facts that follow from others by an inverse or duplicate.

    Which predicates repeat each other is seen in the facts of all splits, so that it does not depend on the split.
    """
    train, entities = graph.train.positives, len(graph.entities)
    degrees = np.bincount(train[:, [0, 2]].reshape(-1), minlength=entities)
    median, ninety, most = (int(value) for value in np.quantile(degrees, (0.5, 0.9, 1.0), method="lower"))
    edges = coo_matrix((np.ones(len(train), dtype=bool), (train[:, 0], train[:, 2])), shape=(entities, entities))
    count, component = connected_components(edges, directed=False)
    facts = graph.all_known.triples
    repeats = repeats_of(facts, entities, len(graph.predicates))
    apart = [repeat for repeat in repeats or () if repeat.predicate != repeat.other]
    units = Families.of(repeats, len(graph.predicates)).units(facts) if repeats else np.arange(len(facts))
    return GraphShape(
        degrees=(median, ninety, most),
        single=float((degrees == 1).mean()),
        components=int(count),
        largest=float(np.bincount(component).max() / entities),
        predicates=_predicates(train, graph),
        twins=None if repeats is None else tuple(sorted(apart, key=lambda twin: -twin.share)),
        symmetric=len(repeats or ()) - len(apart),
        facts=len(facts),
        twin_facts=int((np.bincount(units)[units] > 1).sum()),
        leaking=_leaking(graph, repeats or []),
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
    predicates = [
        Predicate(
            graph.predicates[p],
            int(facts[p]),
            float(facts[p] / max(subjects[p], 1)),
            float(facts[p] / max(objects[p], 1)),
            float(symmetric[p] / max(different[p], 1)),
        )
        for p in np.argsort(-facts, kind="stable")
    ]
    return tuple(predicates)


def _leaking(graph: KnowledgeGraph, repeats: list[Repeat]) -> int:
    """Return how many test positives have a twin in train: the same two entities, with an inverse or duplicate."""
    test, index = graph.test.positives, graph.index(graph.train.positives)
    leaks = np.zeros(len(test), dtype=bool)
    for repeat in repeats:
        rows = np.flatnonzero(test[:, 1] == repeat.predicate)
        s, o = (test[rows, end] for end in ((2, 0) if repeat.inverse else (0, 2)))
        leaks[rows] |= index.contains(np.stack([s, np.full_like(s, repeat.other), o], axis=1))
    return int(leaks.sum())


@dataclass(frozen=True)
class PredicateConfidences:
    """The confidences of the training triples of a predicate. `zeros` and `ones` are the shares of exactly 0 and 1."""

    name: str
    facts: int
    mean: float
    deviation: float
    zeros: float
    ones: float


@dataclass(frozen=True)
class Confidences:
    """The confidences of the training triples, all in [0, 1].

    shares       share of the triples in each of BINS bins of equal width
    quantiles    the 10 %, 50 % and 90 % quantiles
    values       number of distinct values
    zeros, ones  shares of exactly 0 and 1
    predicates   largest first
    constant     mean squared error of the mean confidence of train on the true triples of test
    by_relation  the same for the mean of each predicate
    """

    shares: tuple[float, ...]
    quantiles: tuple[float, float, float]
    values: int
    zeros: float
    ones: float
    predicates: tuple[PredicateConfidences, ...]
    constant: float
    by_relation: float


def confidences_of(graph: KnowledgeGraph) -> Confidences | None:
    """Measure the confidences of a graph. None: its training triples have none."""
    confidences = graph.train.confidences
    if confidences is None:
        return None
    predicates, size = graph.train.triples[:, 1], len(graph.predicates)
    counts = np.bincount(predicates, minlength=size)
    means = _means(predicates, confidences, counts)
    spread = np.sqrt(np.maximum(_means(predicates, (confidences - means[predicates]) ** 2, counts), 0))
    zeros, ones = (_means(predicates, (confidences == end).astype(np.float64), counts) for end in (0, 1))
    rows = (
        PredicateConfidences(graph.predicates[p], int(counts[p]), *(float(c[p]) for c in (means, spread, zeros, ones)))
        for p in np.argsort(-counts, kind="stable")
    )
    low, middle, high = (float(value) for value in np.quantile(confidences, (0.1, 0.5, 0.9)))
    true = _true(graph.test)
    target = true.truth
    return Confidences(
        shares=tuple(float(share) for share in np.histogram(confidences, BINS, (0, 1))[0] / len(confidences)),
        quantiles=(low, middle, high),
        values=len(np.unique(confidences)),
        zeros=float((confidences == 0).mean()),
        ones=float((confidences == 1).mean()),
        predicates=tuple(rows),
        constant=float(((target - confidences.mean()) ** 2).mean()),
        by_relation=float(((target - means[true.triples[:, 1]]) ** 2).mean()),
    )


def _true(split: Split) -> Split:
    """Return the triples of a split that are not labelled false."""
    return split if split.confidences is not None else split.part(split.labels == 1)


def _means(predicates: Ints, values: Probabilities, counts: Ints) -> Floats:
    """Return the mean of the values of each predicate; 0 for a predicate without triples."""
    means: Floats = np.bincount(predicates, values, len(counts)) / np.maximum(counts, 1)
    return means
