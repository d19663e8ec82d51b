"""The abstract class of evidence: groups of features of triples, made from the training facts and the model.

A group may give the features of all pairs of some subjects and objects of one predicate, a tile, in less work than pair
by pair. Most features depend on the subject or on the object alone. Most others have one usual value, such as 0 paths,
for all but a few pairs. A group states such features as columns, and names the other pairs: `Feature.tile`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Triples, sorted_distinct
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.evidence.lookup import Links, Tokens, parts_of

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

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
    apart    (n, m) the pairs for which the columns do not hold: `Feature.values` gives theirs; None: no pairs
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


@dataclass(frozen=True)
class Source:
    """What evidence is made from. Of the graph, only names and training facts may be used.

    graph    the graph
    trained  the model that scores triples
    others   further models of the same graph
    """

    graph: KnowledgeGraph
    trained: "TrainedModel"
    others: "tuple[TrainedModel, ...]" = ()

    @cached_property
    def facts(self) -> TripleIndex:
        """An index of the training facts."""
        return self.graph.index(self.graph.train.positives)

    @cached_property
    def triples(self) -> Triples:
        """The distinct training facts (m, 3), in ascending order."""
        return self.facts.triples

    @cached_property
    def links(self) -> Links:
        """The training facts as links between entities."""
        return Links.of(self.triples, *self.sizes)

    @cached_property
    def parts(self) -> Tokens:
        """The parts of the names of the entities that at least two of them have."""
        return Tokens.of(parts_of(name) for name in self.graph.entities)

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of entities and of predicates."""
        return len(self.graph.entities), len(self.graph.predicates)

    def of_other(self, number: int) -> "Source":
        """Return the source in which a further model, by its position, takes the place of the model."""
        return replace(self, trained=self.others[number], others=())


class Feature(ABC):
    """A group of features. A new group is one new file in kgcore/evidence:

        # kgcore/evidence/loops.py
        @EVIDENCE.register("loops")
        class Loops(Feature): ...

    The docstring of a group gives the formula of each feature, its cost, and what could make it misleading.

    names        (d) names of the features: lower-case words with underscores, unique among all groups
    sees_unseen  whether `values` takes triples with entities that training lacks: ids E, E + 1, ... after `extended`.
                 If not, `Features.evidence` gives NaN for these triples, and `values` never sees them
    """

    names: tuple[str, ...]
    sees_unseen: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def of(cls, source: Source) -> Self:
        """Prepare the tables that `values` reads. The result depends on the source alone, to the last bit."""

    @classmethod
    def own(cls, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the names of features that belong to this group."""
        return tuple(name for name in names if name in cls.names)

    def extended(self, names: Sequence[str]) -> Self:
        """Return the same group for a graph with further entities, which training lacks: ids E, E + 1, ...

        names  their names. Nothing is learned from them: the features of all other triples stay the same
        """
        return self

    def needs(self, side: int) -> tuple[str, ...]:
        """Return the features that would not be known if training lacked one entity. side: 0 = subject, 1 = object.

        The others are made without the facts of this entity, such as those of its name and of the other side.
        """
        return self.names

    @abstractmethod
    def values(self, triples: Triples) -> Floats:
        """Return the features (n, d) float64 of triples (n, 3). NaN: not known.

        A training fact is left out of its own evidence: its features are those that it would have if train lacked it.
        A triple has the same features, to the last bit, whichever triples are computed with it. Memory is linear in n,
        so that a caller bounds it with blocks of triples.
        """

    def tile(self, tile: Tile) -> Tiled:
        """Return the features of all pairs of a tile that are not special, faster than `values` does.

        A group may state its features so: tests compare them with `values` for every group. By default, `values` gives
        the features of each pair.
        """
        return Tiled((ZERO,) * len(self.names), np.ones(tile.shape, dtype=bool))
