"""The knowledge graph in memory, and an index that looks up its triples."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Ints, Labels, Probabilities, Triples, as_triples, sorted_distinct
from kgcore.base_rate import BaseRate
from kgcore.errors import InputError

SPLITS = ("train", "valid", "test")


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
        """The triples with label 1."""
        triples: Triples = self.triples[self.labels == 1]
        return triples

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
        return TripleIndex(np.concatenate(triples), len(self.entities), len(self.predicates))

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
            digest.update("\n".join(names).encode() + b"\0")
        for split in splits:
            digest.update(np.ascontiguousarray(split.triples).data)
            digest.update(split.labels.astype(np.int8).tobytes())
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

    def __init__(self, triples: Triples, num_entities: int, num_predicates: int) -> None:
        if num_entities * num_predicates * num_entities >= 2**63:
            raise InputError(
                f"the graph has {num_entities:,} entities and {num_predicates:,} predicates: "
                "entities x predicates x entities must be below 2^63, so split the graph"
            )
        self.num_entities, self.num_predicates = num_entities, num_predicates
        self._keys = sorted_distinct(self.keys(as_triples(triples)))

    def keys(self, triples: Triples) -> Ints:
        """Return the keys (n,) of triples (n, 3)."""
        return (triples[:, 0] * self.num_predicates + triples[:, 1]) * self.num_entities + triples[:, 2]

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def triples(self) -> Triples:
        """The distinct triples (N, 3), in ascending order."""
        rest, objects = np.divmod(self._keys, self.num_entities)
        return np.stack([*np.divmod(rest, self.num_predicates), objects], axis=1)

    def contains(self, triples: Triples) -> Bools:
        """Return whether each triple is in this set of N triples: (n, 3) -> (n,), in O(n log N)."""
        if not len(self._keys):
            return np.zeros(len(triples), dtype=bool)
        keys = self.keys(triples)
        found = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        held: Bools = self._keys[found] == keys
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
