"""The knowledge graph in memory, and the index that answers which triples it holds."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Ints, Labels, Triples, as_triples
from kgcore.errors import InputError

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Split:
    """Triples (n, 3) and their labels (n,), 1 = true and 0 = labelled false; a split without negatives is all ones."""

    triples: Triples
    labels: Labels

    @property
    def positives(self) -> Triples:
        triples: Triples = self.triples[self.labels == 1]
        return triples

    @property
    def negatives(self) -> Triples:
        triples: Triples = self.triples[self.labels == 0]
        return triples

    def __len__(self) -> int:
        return len(self.triples)


@dataclass(frozen=True)
class KnowledgeGraph:
    """Vocabularies and splits. A triple's numbers are positions in `entities` and `predicates`.

    other_facts  true triples (n, 3) of no split, which corruptions and ranks are filtered by as by those of valid
    """

    name: str
    entities: Sequence[str]
    predicates: Sequence[str]
    train: Split
    valid: Split
    test: Split
    other_facts: Triples = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))

    @property
    def labelled(self) -> bool:
        """Whether both held-out splits have labelled negatives."""
        return bool((self.valid.labels == 0).any() and (self.test.labels == 0).any())

    @cached_property
    def known(self) -> "TripleIndex":
        """The facts that may be used in fitting: train and the positives of valid, never test."""
        return self.index(self.train.positives, self.valid.positives, self.other_facts)

    @cached_property
    def all_known(self) -> "TripleIndex":
        """Every positive, those of test included: for evaluation alone."""
        return self.index(self.train.positives, self.valid.positives, self.other_facts, self.test.positives)

    def index(self, *triples: Triples) -> "TripleIndex":
        """An index over the given triples of this graph."""
        return TripleIndex(np.concatenate(triples), len(self.entities), len(self.predicates))

    def fingerprint(self) -> str:
        """sha256 over vocabularies and splits: two graphs are the same data if and only if these agree."""
        others = [Split(self.other_facts, np.ones(len(self.other_facts)))] if len(self.other_facts) else []
        return self._digest(self.train, self.valid, self.test, *others)

    def training_fingerprint(self) -> str:
        """sha256 over vocabularies and train: two graphs train the same models if and only if these agree."""
        return self._digest(self.train)

    def test_fingerprint(self) -> str:
        """sha256 over vocabularies and test: what models are measured on where negatives are labelled."""
        return self._digest(self.test)

    def _digest(self, *splits: Split) -> str:
        digest = hashlib.sha256()
        for names in (self.entities, self.predicates):
            digest.update("\n".join(names).encode() + b"\0")
        for split in splits:
            digest.update(np.ascontiguousarray(split.triples).tobytes())
            digest.update(split.labels.astype(np.int8).tobytes())
        return digest.hexdigest()

    def number(self, names: pd.DataFrame) -> tuple[Triples, Bools]:
        """Triples of names (columns subject, predicate, object) as numbers (n, 3), and whether the graph has all three
        names (n,); a name that it does not have is -1."""
        entities, predicates = pd.Index(self.entities), pd.Index(self.predicates)
        places = {"subject": entities, "predicate": predicates, "object": entities}
        columns = [index.get_indexer(pd.Index(names[column])) for column, index in places.items()]
        triples = np.stack(columns, axis=1).astype(np.int64)
        known: Bools = np.asarray((triples >= 0).all(axis=1))
        return triples, known

    def names_of(self, triples: Triples) -> pd.DataFrame:
        """Triples of numbers (n, 3) as names: columns subject, predicate, object."""
        entities, predicates = np.asarray(self.entities, dtype=object), np.asarray(self.predicates, dtype=object)
        columns = {"subject": entities[triples[:, 0]], "predicate": predicates[triples[:, 1]]}
        return pd.DataFrame(columns | {"object": entities[triples[:, 2]]})


class TripleIndex:
    """A set of triples in sorted 64-bit keys: memory linear in the triples, every look-up vectorised.

    A triple's key is (s R + p) E + o for E entities and R predicates. Raises InputError where E * R * E >= 2^63.
    """

    def __init__(self, triples: Triples, num_entities: int, num_predicates: int) -> None:
        if num_entities * num_predicates * num_entities >= 2**63:
            raise InputError(
                f"{num_entities:,} entities with {num_predicates:,} predicates have more possible triples than "
                "64-bit keys: split the graph"
            )
        self.num_entities, self.num_predicates = num_entities, num_predicates
        self._keys = np.unique(self.keys(as_triples(triples)))

    def keys(self, triples: Triples) -> Ints:
        """The triples' keys (n,)."""
        return (triples[:, 0] * self.num_predicates + triples[:, 1]) * self.num_entities + triples[:, 2]

    def __len__(self) -> int:
        return len(self._keys)

    def contains(self, triples: Triples) -> Bools:
        """(n, 3) -> (n,): whether each triple is in the set; O(n log N)."""
        if not len(self._keys):
            return np.zeros(len(triples), dtype=bool)
        keys = self.keys(triples)
        found = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        held: Bools = self._keys[found] == keys
        return held

    def objects(self, subjects: Ints, predicates: Ints) -> tuple[Ints, Ints]:
        """For n pairs (s, p): all known objects, as (row, object), row being the pair's position in 0..n-1."""
        start = (subjects * self.num_predicates + predicates) * self.num_entities
        rows, positions = _ranges(self._keys, start, start + self.num_entities)
        return rows, self._keys[positions] % self.num_entities

    def subjects(self, predicates: Ints, objects: Ints) -> tuple[Ints, Ints]:
        """For n pairs (p, o): all known subjects, as (row, subject)."""
        start = (objects * self.num_predicates + predicates) * self.num_entities
        rows, positions = _ranges(self._mirrored, start, start + self.num_entities)
        return rows, self._mirrored[positions] % self.num_entities

    @cached_property
    def _mirrored(self) -> Ints:
        """The keys with subject and object exchanged, sorted."""
        rest, objects = np.divmod(self._keys, self.num_entities)
        subjects, predicates = np.divmod(rest, self.num_predicates)
        return np.sort((objects * self.num_predicates + predicates) * self.num_entities + subjects)


def _ranges(keys: Ints, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Positions of all keys in [start_i, stop_i), as (i, position), for sorted keys."""
    first, last = np.searchsorted(keys, start), np.searchsorted(keys, stop)
    counts = last - first
    rows = np.repeat(np.arange(len(start)), counts)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, np.repeat(first, counts) + offsets
