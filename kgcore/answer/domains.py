"""The entities that can be the subject or the object of a predicate, by what the training triples show."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array

from kgcore.arrays import Bools, Ints, Triples
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.embed.corruptions.base import OBJECT, SUBJECT

ENOUGH = 0.25  # share of the entities of one place that also occur in another, from which the first implies the other


@dataclass(frozen=True)
class Domains:
    """Infers domain and range of every predicate from the positives of train.

    A place is the subject side or the object side of a predicate. A place implies another one if at least ENOUGH of
    its entities occur there, too: who has a home, also has a birthplace. An entity can take a place if one of its own
    places in train implies it. So an entity that has no fact of a predicate yet can still be a candidate.

    graph     the graph
    is_typed  if False, every entity can take every place
    """

    graph: KnowledgeGraph
    is_typed: bool = True

    def of(self, predicate: int, side: int) -> Ints:
        """Return the entities, ascending, that can take a place.

        side  SUBJECT or OBJECT
        """
        if not self.is_typed:
            return np.arange(len(self.graph.entities))
        place = 2 * predicate + (side == OBJECT)
        if place not in self._entities:
            implying: Bools = self._shared[:, place] >= np.maximum(ENOUGH * self._shared.diagonal(), 1)
            self._entities[place] = np.flatnonzero(self._places[:, np.flatnonzero(implying)].sum(axis=1))
        return self._entities[place]

    def off_type(self, triples: Triples) -> Bools:
        """Return which triples (n, 3) have a subject or an object that cannot take its place.

        An entity without a fact of the predicate can, if it has facts as those have that do: a person without a
        birthplace is missing data.
        """
        fits: Bools = np.ones(len(triples), dtype=bool)
        for predicate in np.unique(triples[:, 1]).tolist():
            rows = np.flatnonzero(triples[:, 1] == predicate)
            for column in (SUBJECT, OBJECT):
                fits[rows] &= np.isin(triples[rows, column], self.of(predicate, column))
        return ~fits

    def left_out(self, predicate: int) -> TripleIndex:
        """Return the triples of a predicate that are not candidates.

        They are the known facts of all splits and, if no training triple of the predicate has the same subject and
        object, all triples that do.
        """
        start, stop = np.searchsorted(self._facts[:, 1], [predicate, predicate + 1])
        entities = np.arange(0 if predicate in self.reflexive else len(self.graph.entities))
        loops = np.stack([entities, np.full(len(entities), predicate), entities], axis=1)
        return self.graph.index(self._facts[start:stop], loops)

    @cached_property
    def _entities(self) -> dict[int, Ints]:
        """Place -> the entities that can take it, once they are known."""
        return {}

    @cached_property
    def reflexive(self) -> set[int]:
        """The predicates with a training triple whose subject is its object."""
        train = self.graph.train.positives
        return set(train[train[:, 0] == train[:, 2], 1].tolist())

    @cached_property
    def _facts(self) -> Triples:
        """The known facts of all splits (n, 3), sorted by predicate."""
        graph = self.graph
        facts = [graph.train.positives, graph.valid.positives, graph.test.positives, graph.other_facts]
        every = np.concatenate(facts)
        return every[np.argsort(every[:, 1], kind="stable")]

    @cached_property
    def _places(self) -> csc_array:
        """Whether an entity occurs in a place: (E, 2 R) of 0 and 1."""
        train, size = self.graph.train.positives, len(self.graph.entities) * 2 * len(self.graph.predicates)
        columns = [2 * train[:, 1] + (side == OBJECT) for side in (SUBJECT, OBJECT)]
        keys = np.concatenate([train[:, 0], train[:, 2]]) * 2 * len(self.graph.predicates) + np.concatenate(columns)
        keys = np.unique(keys)
        rows, places = np.divmod(keys, 2 * len(self.graph.predicates))
        shape = (len(self.graph.entities), size // len(self.graph.entities))
        return csc_array((np.ones(len(keys), dtype=np.int64), (rows, places)), shape=shape)

    @cached_property
    def _shared(self) -> Ints:
        """The number of entities that occur in both of two places: (2 R, 2 R)."""
        shared: Ints = (self._places.T @ self._places).toarray()
        return shared
