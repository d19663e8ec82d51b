"""The base classes of scoring functions. Most of them consist of a query and a comparison.

Such a model maps two parts of a triple to a point, the query, and compares the point with the third part:

    score(s, p, o) = compare(object_query(s, p), o) = compare(subject_query(p, o), s)

Both queries give the same score. Training with shared corruptions, scoring, and ranking against every entity all use
this formula. If the comparison is a dot product, the scores of many triples are one matrix product. A `QueryModel` is a
scoring function of this form. Any other scoring function is a `Model` that implements `score`.

A model takes the embeddings of entities and predicates, never their ids, and broadcasts over leading dimensions.
`Embeddings` holds the tables. `bound` sets the numbers that all triples share, such as the filters of a convolution. A
`GraphModel` encodes its embeddings from the training graph. Training keeps the encoded tables, so that scoring and
ranking need no encoder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats
from kgcore.errors import InputError

LARGEST_ON_CPU, LARGEST_ON_GPU = 2**20, 2**25  # numbers of a query and an entity, for all pairs at a time
MULTIPLE = 64  # of the rows of an operand: the largest panel of rows of the kernels of oneDNN and MKL is smaller
SCORE_ROWS = 1024  # triples per block: their embeddings fit in a CPU's cache
LARGEST_BLOCK = 2**25  # scores are computed in blocks; a tensor of a block has at most this many elements


class Chosen(Enum):
    """The default of an option whose value the model computes. A command's help shows the name of this default."""

    CHOSEN_FROM_K = "chosen_from_k"

    def __repr__(self) -> str:
        return self.name


CHOSEN_FROM_K: Final = Chosen.CHOSEN_FROM_K


def whole(name: str, value: float) -> int:
    """Return a count as an int. Raises InputError if the value is not a whole number, or is below 1."""
    if not float(value).is_integer() or value < 1:
        raise InputError(f"{name} is {value:g}: it must be a whole number of at least 1")
    return int(value)


def check_norm(norm: float) -> float:
    """Return the n of an n-norm. Raises InputError if n is neither 1 nor 2."""
    if norm not in (1, 2):
        raise InputError(f"norm is {norm:g}: it must be 1 or 2")
    return float(norm)


class Comparator(ABC):
    """A symmetric function that scores a query and an entity, higher = more plausible.

    name  the comparison's name in backends such as kgcore/wings/fast_cpu; "" = no backend has it
    """

    name = ""

    @abstractmethod
    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score the i-th query with the i-th entity: (..., d) and (..., d) -> (...)."""

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score every query with every candidate: (..., q, d) and (..., c, d) -> (..., q, c).

        Without gradients, queries (q, d) are compared with a part of the candidates at a time, to save memory.
        """
        if queries.dim() != 2 or torch.is_grad_enabled():
            return self.pairs(queries.unsqueeze(-2), entities.unsqueeze(-3))
        most = LARGEST_ON_CPU if queries.device.type == "cpu" else LARGEST_ON_GPU
        parts = torch.split(entities, max(1, most // max(1, queries.numel())))
        return torch.cat([self.pairs(queries.unsqueeze(-2), part) for part in parts], 1)


class DotProduct(Comparator):
    """The dot product, sum_i q_i e_i."""

    name = "dot"

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        return (queries * entities).sum(-1)

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        if torch.compiler.is_dynamo_compiling() and queries.shape[-2] == 1:  # faster than many products with a vector
            return super().outer(queries, entities)
        return queries @ entities.mT


class Distance(Comparator):
    """The negative of a distance that is computed from the differences q - e, -d(q - e). A subclass sets `distance`.

    distance  function of the differences (..., d): (...)
    """

    distance: Callable[[Tensor], Tensor]

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        return -self.distance(queries - entities)


def l1(difference: Tensor) -> Tensor:
    """Return ||difference||_1."""
    return difference.abs().sum(-1)


def l2(difference: Tensor) -> Tensor:
    """Return ||difference||_2, with a finite gradient at 0."""
    return difference.square().sum(-1).add(1e-12).sqrt()


class NegativeDistance(Distance):
    """The negative distance, -||q - e||_n, for n = 1 or 2. Raises InputError if n is neither 1 nor 2."""

    def __init__(self, norm: float) -> None:
        self.norm = check_norm(norm)
        self.distance = l1 if self.norm == 1 else l2
        self.name = f"l{self.norm:g}"

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        if torch.compiler.is_dynamo_compiling():  # inductor fuses the formula into one pass
            return super().outer(queries, entities)
        return -torch.cdist(queries, entities, p=self.norm, compute_mode="donot_use_mm_for_euclid_dist")


def block_rows(most: int, largest: int) -> int:
    """Return the number of rows of a block: `most`, or a smaller multiple of MULTIPLE that does not exceed `largest`.

    If not even MULTIPLE rows fit, it is MULTIPLE.
    """
    return max(MULTIPLE, min(most, largest // MULTIPLE * MULTIPLE))


def fixed_blocks(ids: Tensor, rows: int) -> Iterator[tuple[Tensor, int]]:
    """Divide ids (n, ...) into blocks of exactly `rows` rows. Yield each block and the number of its own rows.

    The last block is filled up with copies of its first row, which come after its own rows.
    """
    for block in torch.split(ids, rows) if len(ids) else ():
        count = len(block)
        yield (torch.cat([block, block[:1].expand(rows - count, *block.shape[1:])]) if count < rows else block), count


class Model(ABC):
    """A scoring function with embedding size k. The constructor's keyword arguments after k are its options.

    shared           name -> numbers that all triples share; empty in most models
    can_drop         whether training may use dropout; false if 0 in an embedding has a meaning like any other number
    scale            initial embeddings are uniform in [-scale, scale], if their distribution is uniform
    predicate_scale  the same for predicates; None = `scale`
    entity_parts, predicate_parts  real numbers for each of the k numbers of an embedding: 2 if these are complex
    """

    can_drop = True
    scale: float = 0.05
    predicate_scale: float | None = None
    entity_parts = predicate_parts = 1

    def __init__(self, k: int) -> None:
        self.k = k
        self.shared: Mapping[str, Tensor] = {}

    @property
    def entity_width(self) -> int:
        """Length of the embedding of an entity."""
        return self.entity_parts * self.k

    @property
    def predicate_width(self) -> int:
        """Length of the embedding of a predicate."""
        return self.predicate_parts * self.k

    @property
    def pair_width(self) -> int:
        """Numbers in memory to score one query with one candidate. The size of a block depends on it."""
        return self.entity_width

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        """Return the initial shared numbers: name -> array of at least one dimension."""
        return {}

    def bound(self, shared: Mapping[str, Tensor]) -> Self:
        """Return a copy of the model that uses these shared numbers."""
        model = copy(self)
        model.shared = shared
        return model

    @abstractmethod
    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        """Return f(s, p, o) for embeddings of s, p and o: any real number, higher = more plausible.

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

    comparator: Comparator

    @property
    def pair_width(self) -> int:
        return 1  # the comparator limits its memory

    @abstractmethod
    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        """Return the point to compare objects with.

        (..., entity_width), (..., predicate_width) -> (..., entity_width)
        """

    @abstractmethod
    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        """Return the point to compare subjects with.

        (..., predicate_width), (..., entity_width) -> (..., entity_width)
        """

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        return self.comparator.pairs(self.object_query(subjects, predicates), objects)

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        return self.comparator.outer(self.object_query(subjects, predicates), candidates)

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        return self.comparator.outer(self.subject_query(predicates, objects), candidates)


class GraphModel(Model):
    """A scoring function that computes its embeddings from the training graph, with `encode`.

    hops  layers of the encoder, at least 1: see `around` in kgcore/embed/training/step.py
    """

    hops: int

    @abstractmethod
    def encode(self, entities: Tensor, predicates: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Encode both tables: (E, entity_width), (R, predicate_width) -> two tables of the same shapes, for `score`.

        triples  (n, 3) the training split

        The triples (s, p, o) change the embedding of their object o; each adds something of s and p to it. Training
        calls the function in every step with a part of the graph, and once at the end for the tables that it keeps.
        """


@dataclass(frozen=True)
class Embeddings:
    """The trained tables in float32. For a `GraphModel`, these are the encoded tables.

    entities    (E, entity_width)
    predicates  (R, predicate_width)
    shared      name -> numbers that all triples share
    """

    entities: Tensor
    predicates: Tensor
    shared: Mapping[str, Tensor] = field(default_factory=dict)

    def rows_of(self, triples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the embeddings of subjects, predicates and objects of triples (n, 3): three tensors (n, width).

        It uses index_select, which copies whole rows. `entities[ids]` takes six times as long on a CPU.
        """
        s, p, o = triples.unbind(1)
        return self.entities.index_select(0, s), self.predicates.index_select(0, p), self.entities.index_select(0, o)

    def to(self, device: torch.device) -> "Embeddings":
        """Return the same tables on that device."""
        shared = {name: tensor.to(device) for name, tensor in self.shared.items()}
        return Embeddings(self.entities.to(device), self.predicates.to(device), shared)
