"""The features of all pairs of some subjects and objects of one predicate, in less work than pair by pair.

Most features depend on the subject or on the object alone. Most others have one usual value, such as 0 paths, for all
but a few pairs. A group of evidence states such features as columns, and names the other pairs: `Feature.tile`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Triples, sorted_distinct
from kgcore.graph import TripleIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from kgcore.evidence.base import Feature
    from kgcore.models.trained import TrainedModel

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PairColumn:
    """Bounds of one feature of the pairs of a tile. The pair (i, j) has those of the element [rows[i], columns[j]].

    low, high  (a, b), with a or b = 1 for a feature that depends on one side alone; low is high: it is known exactly
    rows       (n,); None: i, or 0 if a = 1
    columns    (m,); None: j, or 0 if b = 1
    """

    low: Values
    high: Values
    rows: Ints | None = None
    columns: Ints | None = None

    @classmethod
    def of(cls, values: Floats, rows: Ints | None = None, columns: Ints | None = None) -> "PairColumn":
        """Return the column of a feature that is known exactly: (a, b)."""
        table = np.atleast_2d(values).astype(np.float32)
        return cls(table, table, rows, columns)

    @classmethod
    def between(cls, low: Floats, high: Floats) -> "PairColumn":
        """Return the column of a feature (n, m) between two numbers."""
        return cls(low.astype(np.float32), high.astype(np.float32))

    def of_pairs(self, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what each pair has of a table (a, b, ...): an array that broadcasts to (n, m, ...)."""
        table = table if self.rows is None else table[self.rows]
        return table if self.columns is None else table[:, self.columns]


ZERO = PairColumn.of(np.zeros((1, 1)))


@dataclass(frozen=True)
class Tiled:
    """The features of a group for the pairs of a tile.

    columns  one for each feature
    apart    (n, m) the pairs for which the columns do not hold: `Feature.values` gives theirs; None: there are none
    """

    columns: Sequence[PairColumn]
    apart: Bools | None = None


@dataclass(frozen=True)
class Tile:
    """All pairs of some subjects (n,) and objects (m,), entities that training has, of one predicate.

    facts  an index of the training facts
    """

    subjects: Ints
    predicate: int
    objects: Ints
    facts: TripleIndex
    _raw: "dict[int, tuple[Floats, Floats]]" = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.subjects), len(self.objects)

    def triples(self, subjects: Ints, objects: Ints) -> Triples:
        """Return the triples (k, 3) of k subjects and k objects with the predicate of the tile."""
        return np.stack([subjects, np.full(len(subjects), self.predicate), objects], axis=1)

    def at(self, pairs: Bools) -> Triples:
        """Return the triples (k, 3) of the pairs that a mask (n, m) chooses, row by row."""
        i, j = np.nonzero(pairs)
        return self.triples(self.subjects[i], self.objects[j])

    @cached_property
    def special(self) -> Bools:
        """The pairs (n, m) that are training facts, which their evidence leaves out, or have one entity twice."""
        special: Bools = self.subjects[:, None] == self.objects
        rows, facts = self.facts.objects(self.subjects, np.full(len(self.subjects), self.predicate))
        self.mark(special, rows, facts)
        return special

    def mark(self, pairs: Bools, rows: Ints, objects: Ints) -> None:
        """Set the pairs (n, m) of rows (k,) and of entities (k,) that are among the objects to True."""
        order = np.argsort(self.objects)
        places = np.searchsorted(self.objects, objects, sorter=order).clip(max=len(order) - 1)
        held = self.objects[order[places]] == objects
        pairs[rows[held], order[places[held]]] = True

    def raw(self, trained: "TrainedModel") -> tuple[Floats, Floats]:
        """Return bounds (n, m) of the raw scores of a model, computed once."""
        if id(trained) not in self._raw:
            self._raw[id(trained)] = raw_bounds(trained, self.subjects, self.predicate, self.objects)
        return self._raw[id(trained)]

    def sided(self, group: "Feature", of_subject: str) -> tuple[PairColumn, ...]:
        """Return the columns of a group whose every feature depends on one side alone, unless the pair is special.

        of_subject  how the names of the features of the subject start; the others depend on the object
        """
        s, o = self.subjects, self.objects
        by_subject = group.values(self.triples(s, self._strangers(s, 2)))
        by_object = group.values(self.triples(self._strangers(o, 0), o))
        return tuple(
            PairColumn.of(by_subject[:, k, None] if name.startswith(of_subject) else by_object[None, :, k])
            for k, name in enumerate(group.names)
        )

    def _strangers(self, entities: Ints, side: int) -> Ints:
        """Return for each entity the first other one on a side, 0 or 2, with which it is no training fact, or 0."""
        predicates, count = np.full(len(entities), self.predicate), self.facts.num_entities
        known = self.facts.subjects(predicates, entities) if side == 0 else self.facts.objects(entities, predicates)
        starts = np.arange(len(entities)) * count
        keys = sorted_distinct(np.concatenate([known[0] * count + known[1], starts + entities]))
        first = np.searchsorted(keys, starts)
        rows, partners = np.divmod(keys, count)
        ranks = np.arange(len(keys)) - first[rows]
        strangers = np.diff(first, append=len(keys)) % count  # after 0, 1, 2, ... without a gap
        gaps = np.flatnonzero(partners != ranks)[::-1]  # the first one of a row is assigned last
        strangers[rows[gaps]] = ranks[gaps]
        return strangers


def raw_bounds(trained: "TrainedModel", subjects: Ints, predicate: int, objects: Ints) -> tuple[Floats, Floats]:
    """Return bounds (n, m) of the raw scores of all pairs: see `Scorer.tiles`."""
    low, high = np.empty((len(subjects), len(objects))), np.empty((len(subjects), len(objects)))
    for rows, columns, *bounds in replace(trained, cohort=None).tiles(subjects, predicate, objects):
        low[rows, columns], high[rows, columns] = bounds
    return low, high


def meeting(left: "csr_array", right: "csr_array") -> Bools:
    """Return which rows of two matrices (n, c) and (m, c) of positive numbers have a column in common: (n, m)."""
    product = (left @ right.T.tocsr()).tocoo()
    met = np.zeros(product.shape, dtype=bool)
    met[product.row, product.col] = True
    return met
