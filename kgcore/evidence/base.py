"""The abstract class of evidence: a group of features of triples, made from the training facts and the model."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from kgcore.arrays import Floats, Triples
from kgcore.evidence.links import Links
from kgcore.evidence.tile import ZERO, Tile, Tiled
from kgcore.evidence.words import Tokens, parts_of
from kgcore.graph import KnowledgeGraph, TripleIndex

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel


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

        # kgcore/evidence/degrees.py
        @EVIDENCE.register("degrees")
        class Degrees(Feature): ...

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
