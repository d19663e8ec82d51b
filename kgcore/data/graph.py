"""The knowledge graph in memory, an index that looks up its triples, and counts of its facts."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from kgcore.arrays import (
    Bools,
    Ints,
    Labels,
    Numbers,
    Probabilities,
    Triples,
    as_triples,
    blocks,
    chosen,
    sort_distinct,
)
from kgcore.base_rate import BaseRate
from kgcore.errors import InputError

SPLITS = ("train", "valid", "test")
EDGES = 2**22  # facts whose components are found at a time
OBJECTS = 2**24  # facts whose objects are counted at a time


@dataclass(frozen=True)
class Split:
    """Triples (n, 3) and their labels (n,): 1 = true, 0 = labelled false. A split without negatives has only 1.

    confidences  (n,) in [0, 1]: how sure the source is that the triple is true; 0 for a labelled negative. None: a
                 triple with label 1 is surely true. A split of stored rows with confidences has only the label 1
    """

    triples: Triples
    labels: Labels
    confidences: Probabilities | None = None

    @property
    def truth(self) -> Probabilities:
        """The confidences (n,) of the triples; their labels, if the split has no confidences."""
        return self.labels if self.confidences is None else self.confidences

    def part(self, rows: Bools | Ints) -> "Split":
        """Return the rows that a mask or positions choose, in this order."""
        confidences = None if self.confidences is None else self.confidences[rows]
        return Split(self.triples[rows], self.labels[rows], confidences)

    @property
    def positives(self) -> Triples:
        """The triples with label 1: the array `triples` itself, if all have it."""
        return chosen(self.triples, self.labels == 1)

    @property
    def negatives(self) -> Triples:
        """The triples with label 0."""
        triples: Triples = self.triples[self.labels == 0]
        return triples

    def __len__(self) -> int:
        return len(self.triples)


@dataclass(frozen=True)
class KnowledgeGraph:
    """Vocabularies and splits. A triple holds positions in `entities` and `predicates`.

    other_facts  (n, 3) true triples that are in no split. They filter corruptions and ranks as the splits' facts do
    labelled_base_rate
                 estimated share of true triples among newly labelled triples, if valid also has positives that were
                 not sampled with them. None: the share of positives in valid
    twins_together
                 whether the splits were drawn so that a fact and its twins are in one of them: see `Families`
    """

    name: str
    entities: Sequence[str]
    predicates: Sequence[str]
    train: Split
    valid: Split
    test: Split
    other_facts: Triples = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    labelled_base_rate: BaseRate | None = None
    twins_together: bool = False

    @property
    def labelled(self) -> bool:
        """Whether both held-out splits have labelled negatives."""
        return bool((self.valid.labels == 0).any() and (self.test.labels == 0).any())

    @cached_property
    def known(self) -> "TripleIndex":
        """The facts that a fit may use: the positives of train and valid, and `other_facts`. Test is left out."""
        return self.index(self.train.positives, self.valid.positives, self.other_facts)

    @cached_property
    def all_known(self) -> "TripleIndex":
        """All facts, including the positives of test. Only evaluation may use them."""
        return self.index(self.train.positives, self.valid.positives, self.other_facts, self.test.positives)

    @cached_property
    def labelled_false(self) -> "TripleIndex":
        """The triples that a split labels as false."""
        return self.index(*(split.negatives for split in (self.train, self.valid, self.test)))

    def index(self, *triples: Triples) -> "TripleIndex":
        """Return an index of the given triples of this graph."""
        return TripleIndex(triples, len(self.entities), len(self.predicates))

    def fingerprint(self) -> str:
        """Return the sha256 of the vocabularies and splits: equal if and only if two graphs hold the same data."""
        others = [Split(self.other_facts, np.ones(len(self.other_facts)))] if len(self.other_facts) else []
        digest = self._digest(self.train, self.valid, self.test, *others)
        if self.labelled_base_rate is None:
            return digest
        return hashlib.sha256(f"{digest} {self.labelled_base_rate!r}".encode()).hexdigest()

    def training_fingerprint(self) -> str:
        """Return the sha256 of the vocabularies and train: equal if and only if two graphs train the same models."""
        return self._digest(self.train)

    def test_fingerprint(self) -> str:
        """Return the sha256 of the vocabularies and test: equal if and only if two graphs have the same test split."""
        return self._digest(self.test)

    def _digest(self, *splits: Split) -> str:
        digest = hashlib.sha256()
        for names in (self.entities, self.predicates):
            for rows in blocks(len(names)):
                digest.update(("\n" * (rows.start > 0) + "\n".join(names[rows])).encode())
            digest.update(b"\0")
        for split in splits:
            digest.update(np.ascontiguousarray(split.triples).data)
            digest.update(split.labels.astype(np.int8).data)
            if split.confidences is not None:
                digest.update(b"confidences")
                digest.update(np.ascontiguousarray(split.confidences).data)
        return digest.hexdigest()

    def number(self, names: pd.DataFrame) -> tuple[Triples, Bools]:
        """Convert names to positions (n, 3). Also return a mask (n,) of the triples whose three names are in the graph.

        names  n rows, columns subject, predicate, object. The position of an unknown name is -1
        """
        entities, predicates = pd.Index(self.entities), pd.Index(self.predicates)
        places = {"subject": entities, "predicate": predicates, "object": entities}
        columns = [index.get_indexer(pd.Index(names[column])) for column, index in places.items()]
        triples = np.stack(columns, axis=1).astype(np.int64)
        known: Bools = np.asarray((triples >= 0).all(axis=1))
        return triples, known

    def names_of(self, triples: Triples) -> pd.DataFrame:
        """Return the names of the triples (n, 3) as a table: n rows, columns subject, predicate, object."""
        entities, predicates = np.asarray(self.entities, dtype=object), np.asarray(self.predicates, dtype=object)
        columns = {"subject": entities[triples[:, 0]], "predicate": predicates[triples[:, 1]]}
        return pd.DataFrame(columns | {"object": entities[triples[:, 2]]})


class TripleIndex:
    """A set of triples, stored as sorted 64-bit keys.

    Memory is linear in the number of triples. Every look-up is vectorised.
    The key of a triple is (s R + p) E + o for E entities and R predicates. Raises InputError if E * R * E >= 2^63.
    """

    def __init__(self, triples: Numbers | Sequence[Numbers], num_entities: int, num_predicates: int) -> None:
        """Store the distinct triples of one array (n, 3), or of several."""
        if num_entities * num_predicates * num_entities >= 2**63:
            raise InputError(
                f"the graph has {num_entities:,} entities and {num_predicates:,} predicates: "
                "entities x predicates x entities must be below 2^63, so split the graph"
            )
        self.num_entities, self.num_predicates = num_entities, num_predicates
        parts = [as_triples(part) for part in ([triples] if isinstance(triples, np.ndarray) else triples)]
        keys, start = np.empty(sum(map(len, parts)), dtype=np.int64), 0
        for part in parts:
            for rows in blocks(len(part)):
                keys[start + rows.start : start + rows.stop] = self.keys(part[rows])
            start += len(part)
        self._keys = sort_distinct(keys, in_runs=True)

    def keys(self, triples: Numbers) -> Ints:
        """Return the keys (n,) of triples (n, 3)."""
        keys = triples[:, 0].astype(np.int64)
        keys *= self.num_predicates
        keys += triples[:, 1]
        keys *= self.num_entities
        keys += triples[:, 2]
        return keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, rows: slice | Ints) -> Triples:
        """Return the distinct triples (n, 3) at positions in their ascending order."""
        rest, objects = np.divmod(self._keys[rows], self.num_entities)
        return np.stack([*np.divmod(rest, self.num_predicates), objects], axis=1)

    def blocks(self) -> Iterator[Triples]:
        """Yield the distinct triples in ascending order, some (n, 3) at a time. All take three times as much memory."""
        return (self[rows] for rows in blocks(len(self)))

    @property
    def triples(self) -> Triples:
        """The distinct triples (N, 3), in ascending order."""
        return self[:]

    def contains(self, triples: Numbers) -> Bools:
        """Return whether each triple is in this set of N triples: (n, 3) -> (n,), in O(n log N)."""
        held = np.zeros(len(triples), dtype=bool)
        for rows in blocks(len(triples)) if len(self._keys) else ():
            keys = self.keys(triples[rows])
            order = np.argsort(keys)  # the search is several times as fast for keys in ascending order
            keys = keys[order]
            found = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
            held[rows.start + order] = self._keys[found] == keys
        return held

    def objects(self, subjects: Ints, predicates: Ints) -> tuple[Ints, Ints]:
        """Find all known objects of n pairs (s, p). Return two arrays: pair number, 0 to n - 1, and object."""
        start = (subjects * self.num_predicates + predicates) * self.num_entities
        rows, positions = _ranges(self._keys, start, start + self.num_entities)
        return rows, self._keys[positions] % self.num_entities

    def subjects(self, predicates: Ints, objects: Ints) -> tuple[Ints, Ints]:
        """Find all known subjects of n pairs (p, o). Return two arrays: pair number, 0 to n - 1, and subject."""
        start = (objects * self.num_predicates + predicates) * self.num_entities
        rows, positions = _ranges(self._mirrored, start, start + self.num_entities)
        return rows, self._mirrored[positions] % self.num_entities

    @cached_property
    def _mirrored(self) -> Ints:
        """The sorted keys of the triples with subject and object exchanged, for the look-up of subjects."""
        rest, objects = np.divmod(self._keys, self.num_entities)
        subjects, predicates = np.divmod(rest, self.num_predicates)
        return np.sort((objects * self.num_predicates + predicates) * self.num_entities + subjects)


def _ranges(keys: Ints, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Find the positions of the sorted keys with start_i <= key < stop_i, for every i.

    Return two arrays of equal length, with one element per key found: i, and the position of the key.
    """
    first, last = np.searchsorted(keys, start), np.searchsorted(keys, stop)
    counts = last - first
    rows = np.repeat(np.arange(len(start)), counts)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, np.repeat(first, counts) + offsets


@dataclass(frozen=True)
class Ends:
    """The distinct entities on one side of the facts of each predicate.

    numbers  (R,) how many there are
    largest  (R,) the one with the largest id; 0 for a predicate without facts
    """

    numbers: Ints
    largest: Ints

    @classmethod
    def of_subjects(cls, facts: TripleIndex) -> Self:
        """Count the subjects of each predicate. Facts in ascending order have those of a subject side by side."""
        numbers, largest = (np.zeros(facts.num_predicates, dtype=np.int64) for _ in range(2))
        last = -1
        for s, p, _ in (part.T for part in facts.blocks()):
            pairs = s * facts.num_predicates + p
            is_new = np.diff(pairs, prepend=last) != 0
            numbers += np.bincount(p[is_new], minlength=len(numbers))
            largest[p] = s  # the last assignment counts
            last = pairs[-1]
        return cls(numbers, largest)

    @classmethod
    def of_objects(cls, facts: TripleIndex) -> Self:
        """Count the objects of each predicate, those with the same remainder at a time, to bound memory."""
        entities, predicates, parts = facts.num_entities, facts.num_predicates, -(-len(facts) // OBJECTS)
        numbers, largest = (np.zeros(predicates, dtype=np.int64) for _ in range(2))
        for part in range(parts):
            found = ((p, o, o % parts == part) for _, p, o in (block.T for block in facts.blocks()))
            pairs = sort_distinct(np.concatenate([p[here] * entities + o[here] for p, o, here in found]))
            ends = np.searchsorted(pairs, np.arange(predicates + 1) * entities)
            numbers += np.diff(ends)
            some = np.diff(ends) > 0
            largest[some] = np.maximum(largest[some], pairs[ends[1:][some] - 1] % entities)
        return cls(numbers, largest)


@dataclass(frozen=True)
class FactCounts:
    """How many of the distinct facts in an index there are of each kind. They are counted block by block.

    predicates, loops  (R,) number of facts of each predicate, and of those with the same entity on both sides
    subjects, objects  (E,) number of facts in which each entity is the subject, or the object
    distinct           the subjects, and the objects, of each predicate
    """

    index: TripleIndex
    predicates: Ints
    loops: Ints
    subjects: Ints
    objects: Ints
    distinct: tuple[Ends, Ends]

    @classmethod
    def of(cls, facts: TripleIndex) -> Self:
        """Count the facts."""
        entities, predicates = facts.num_entities, facts.num_predicates
        distinct = Ends.of_subjects(facts), Ends.of_objects(facts)
        by_predicate, loops = (np.zeros(predicates, dtype=np.int64) for _ in range(2))
        subjects, objects = (np.zeros(entities, dtype=np.int64) for _ in range(2))
        for s, p, o in (part.T for part in facts.blocks()):
            by_predicate += np.bincount(p, minlength=predicates)
            loops += np.bincount(p[s == o], minlength=predicates)
            np.add.at(subjects, s, 1)
            np.add.at(objects, o, 1)
        return cls(facts, by_predicate, loops, subjects, objects, distinct)

    @property
    def degrees(self) -> Ints:
        """The number of sides of facts (E,) on which each entity is."""
        return self.subjects + self.objects

    def chosen(self, choose: Callable[[Triples], Bools]) -> Triples:
        """Return the facts (m, 3) that a function of some facts (n, 3) chooses by a mask (n,), in ascending order."""
        return np.concatenate([self.index[:0], *(part[choose(part)] for part in self.index.blocks())])


def components_of(facts: Triples, entities: int) -> Ints:
    """Return the number (E,) of the connected component of each entity, from 0, where facts (n, 3) connect entities."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    component: Ints = np.arange(entities)
    count = entities
    for rows in blocks(len(facts), EDGES):
        edges = component[facts[rows][:, [0, 2]]]
        s, o = edges[edges[:, 0] != edges[:, 1]].T
        links = coo_matrix((np.ones(len(s), dtype=bool), (s, o)), shape=(count, count))
        count, joined = connected_components(links, directed=False)
        component = joined.astype(np.int64)[component]
    return component
