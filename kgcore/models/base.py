"""The contract of a scoring function: a query and a comparison.

A model maps two parts of a triple to a point, the query, and compares the point with the third part:

    score(s, p, o) = compare(object_query(s, p), o) = compare(subject_query(p, o), s)

Both queries give the same score. The same two lines then serve for training against shared corruptions, for scoring,
and for ranking against every entity. With a dot product as the comparison they are a matrix product. A `QueryModel` is
a scoring function of this form. Any other scoring function is a `Model` that implements `score`.

A model takes gathered embeddings, never ids, and broadcasts over leading dimensions. `Embeddings` holds the tables.
`bound` sets the numbers that all triples share, such as the filters of a convolution. A `GraphModel` encodes its
embeddings from the training graph. Training keeps the encoded tables, so that scoring and ranking need no encoder.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats
from kgcore.models.comparators import Comparator

LARGEST_BLOCK = 2**25  # largest number of elements in each of the few tensors of a block of scores


class Model(ABC):
    """A scoring function with embedding size k. Its keyword arguments after k are its options, with their defaults.

    shared           numbers that all triples share, by name; empty in most models
    by_queries       whether all candidates are compared with one query; large blocks of triples are then efficient
    can_drop         whether training may use dropout; false if zero is a meaningful value of an embedding
    scale            embeddings start uniform in [-scale, scale]
    predicate_scale  the same for predicates; None = `scale`
    """

    by_queries = False
    can_drop = True
    scale: float = 0.05
    predicate_scale: float | None = None

    def __init__(self, k: int) -> None:
        self.k = k
        self.shared: Mapping[str, Tensor] = {}

    @property
    def entity_width(self) -> int:
        """Numbers per entity."""
        return self.k

    @property
    def predicate_width(self) -> int:
        """Numbers per predicate."""
        return self.k

    @property
    def pair_width(self) -> int:
        """Numbers in memory while one pair of a query and a candidate is scored: it limits the size of a block."""
        return self.entity_width

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        """The initial shared numbers: name -> array of at least one dimension."""
        return {}

    def bound(self, shared: Mapping[str, Tensor]) -> Self:
        """The same model with these shared numbers."""
        model = copy(self)
        model.shared = shared
        return model

    @abstractmethod
    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        """f(s, p, o) of gathered embeddings: any real number, higher = more plausible.

        (..., entity_width), (..., predicate_width), (..., entity_width) -> (...)
        """

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        """Score every query with every candidate: the (i, j)-th entry is the score of (s_i, p_i, candidate_j).

        (..., q, entity_width), (..., q, predicate_width), (..., c, entity_width) -> (..., q, c)
        """
        return self.score(subjects.unsqueeze(-2), predicates.unsqueeze(-2), candidates.unsqueeze(-3))

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        """Score every query with every candidate: the (i, j)-th entry is the score of (candidate_j, p_i, o_i).

        (..., q, predicate_width), (..., q, entity_width), (..., c, entity_width) -> (..., q, c)
        """
        return self.score(candidates.unsqueeze(-3), predicates.unsqueeze(-2), objects.unsqueeze(-2))


class QueryModel(Model):
    """A scoring function that factors into a query and a comparison."""

    by_queries = True
    comparator: Comparator

    @property
    def pair_width(self) -> int:
        return self.entity_width if self.comparator.broadcasts else 1

    @abstractmethod
    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        """(..., entity_width), (..., predicate_width) -> (..., entity_width): the point to compare objects with."""

    @abstractmethod
    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        """(..., predicate_width), (..., entity_width) -> (..., entity_width): the point to compare subjects with."""

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        return self.comparator.pairs(self.object_query(subjects, predicates), objects)

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        return self.comparator.outer(self.object_query(subjects, predicates), candidates)

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        return self.comparator.outer(self.subject_query(predicates, objects), candidates)


class GraphModel(Model):
    """A scoring function whose embeddings are encoded from the whole tables and the training graph."""

    @abstractmethod
    def encode(self, entities: Tensor, predicates: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Encode both tables: (E, entity_width), (R, predicate_width) -> two tables of the same shapes, for `score`.

        triples  (n, 3) the training split

        Training calls it once per step, and once more for the tables that it keeps.
        """


@dataclass(frozen=True)
class Embeddings:
    """The trained tables in float32, encoded if the model encodes.

    entities    (E, entity_width)
    predicates  (R, predicate_width)
    shared      the numbers that all triples share, by name
    """

    entities: Tensor
    predicates: Tensor
    shared: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device) -> "Embeddings":
        """The same tables on that device."""
        shared = {name: tensor.to(device) for name, tensor in self.shared.items()}
        return Embeddings(self.entities.to(device), self.predicates.to(device), shared)
