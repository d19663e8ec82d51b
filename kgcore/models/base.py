"""The contract of a scoring function: a query and a comparison.

A model maps two parts of a triple to a point, the query, and compares the point with the third part:

    score(s, p, o) = compare(object_query(s, p), o) = compare(subject_query(p, o), s)

Both queries give the same score. Training against shared corruptions, scoring, and ranking against every entity are
then the same two lines, and a model that compares by dot product gets a matrix product for free. A function that does
not factor this way is a `Model` that implements `score` alone; all that factor are `QueryModel`s.

A model sees embeddings that were gathered already, never ids, and broadcasts over leading dimensions. The tables live
in `Embeddings`; numbers that all triples share, such as the filters of a convolution, come with `bound`. A model whose
embeddings depend on the training graph is a `GraphModel`: it encodes the tables while it is trained, and what is kept
of them is encoded, so that scoring and ranking know nothing of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from kgcore.arrays import Floats
from kgcore.compiling import compile_if_possible
from kgcore.errors import InputError

LARGEST_BLOCK = 2**25  # numbers that a block of scores may hold at once, in each of a few tensors
TILE_QUERIES, TILE_ENTITIES = 256, 2048  # compared at once by L1, outside training
TILED_FROM = 2**22  # comparisons at once that repay compiling, as ranking among many entities does


def whole(name: str, value: float, at_least: int = 1) -> int:
    """An option that counts something, as an int. Raises InputError where it is no whole number or below `at_least`."""
    if not float(value).is_integer() or value < at_least:
        raise InputError(f"{name} is {value:g}: it must be a whole number of at least {at_least}")
    return int(value)


class Comparator(ABC):
    """How a query and an entity become a score; symmetric, higher = more plausible.

    broadcasts  whether `outer` holds d numbers for every pair, or only their score
    """

    broadcasts = True

    @abstractmethod
    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        """(..., d) and (..., d) -> (...): the i-th query with the i-th entity."""

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        """(..., q, d) and (..., c, d) -> (..., q, c): every query with every candidate."""
        return self.pairs(queries.unsqueeze(-2), entities.unsqueeze(-3))


class DotProduct(Comparator):
    """sum_i q_i e_i."""

    broadcasts = False

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        return (queries * entities).sum(-1)

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        return queries @ entities.mT


class NegativeDistance(Comparator):
    """-||q - e||_n, for n = 1 or 2: the distance is negated here, where it is born."""

    broadcasts = False

    def __init__(self, norm: float) -> None:
        if norm not in (1, 2):
            raise InputError(f"norm is {norm:g}: it must be 1 or 2")
        self.norm = float(norm)

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        difference = queries - entities
        return -difference.abs().sum(-1) if self.norm == 1 else -difference.square().sum(-1).add(1e-12).sqrt()

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        if torch.compiler.is_dynamo_compiling():  # inductor fuses the formula itself into one pass
            return super().outer(queries, entities)
        many = queries.dim() == 2 and len(queries) * len(entities) >= TILED_FROM
        if self.norm == 1 and many and not torch.is_grad_enabled() and queries.device.type == "cpu":
            return -_tiled_l1(queries, entities)
        if self.norm == 1:
            distance: Tensor = _L1.apply(queries, entities)  # type: ignore[no-untyped-call]
            return -distance
        return -torch.cdist(queries, entities, p=2, compute_mode="donot_use_mm_for_euclid_dist")


def _tiled_l1(queries: Tensor, entities: Tensor) -> Tensor:
    """cdist for p = 1 on a CPU: a tile of entities at a time, which fits its cache, their numbers side by side. Tiles
    have one shape, so that one kernel is compiled."""
    padded = pad(queries, (0, 0, 0, -len(queries) % TILE_QUERIES))
    distances = queries.new_empty(len(padded), len(entities))
    for start in range(0, len(entities), TILE_ENTITIES):
        tile = entities[start : start + TILE_ENTITIES]
        columns = pad(tile, (0, 0, 0, TILE_ENTITIES - len(tile))).T.contiguous()
        for row in range(0, len(padded), TILE_QUERIES):
            rows = slice(row, row + TILE_QUERIES)
            distances[rows, start : start + len(tile)] = _l1_kernel(queries.shape[1])(padded[rows], columns)[
                :, : len(tile)
            ]
    return distances[: len(queries)]


@cache
def _l1_kernel(width: int) -> Callable[[Tensor, Tensor], Tensor]:
    """(q, width), (width, c) -> (q, c): a kernel of its own for each width."""

    def kernel(queries: Tensor, columns: Tensor) -> Tensor:
        return (queries.unsqueeze(-1) - columns).abs().sum(1)

    return compile_if_possible(kernel, "ranking", instead=lambda queries, columns: torch.cdist(queries, columns.T, p=1))


class _L1(torch.autograd.Function):
    """cdist for p = 1, with a backward of two passes over signs: half the time of PyTorch's own on two cores."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, entities: Tensor) -> Tensor:
        ctx.save_for_backward(queries, entities)
        return torch.cdist(queries, entities, p=1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        queries, entities = ctx.saved_tensors
        signs = (queries.unsqueeze(-2) - entities.unsqueeze(-3)).sgn_().mul_(gradient.unsqueeze(-1))
        return signs.sum(-2), signs.sum(-3).neg_()


class Model(ABC):
    """A scoring function with embedding size k. Its keyword arguments after k are its options, with their defaults.

    shared      numbers that all triples share, by name; none in most models
    by_queries  whether candidates are compared with one query a pair, which makes many pairs at once worth their while
    can_drop    whether an entity with some of its numbers at 0, the others larger, is one that knows less: for dropout
    """

    by_queries = False
    can_drop = True
    scale: float = 0.05  # embeddings start uniform in [-scale, scale]
    predicate_scale: float | None = None  # the same for predicates, where theirs is another

    def __init__(self, k: int) -> None:
        self.k = k
        self.shared: Mapping[str, Tensor] = {}

    @property
    def entity_width(self) -> int:
        """Numbers in an entity's row."""
        return self.k

    @property
    def predicate_width(self) -> int:
        """Numbers in a predicate's row."""
        return self.k

    @property
    def pair_width(self) -> int:
        """Numbers held at once while one candidate is scored against one query: what sizes the blocks of work."""
        return self.entity_width

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        """What the shared numbers start from: name -> array of at least one dimension."""
        return {}

    def bound(self, shared: Mapping[str, Tensor]) -> Self:
        """The same model with these shared numbers."""
        model = copy(self)
        model.shared = shared
        return model

    @abstractmethod
    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        """f(s, p, o) of gathered embeddings, (..., entity_width), (..., predicate_width), (..., entity_width) -> (...):
        any real number, higher = more plausible."""

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        """(..., q, entity_width), (..., q, predicate_width), (..., c, entity_width) -> (..., q, c): the (i, j)-th is
        the score of (s_i, p_i, candidate_j)."""
        return self.score(subjects.unsqueeze(-2), predicates.unsqueeze(-2), candidates.unsqueeze(-3))

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        """(..., q, predicate_width), (..., q, entity_width), (..., c, entity_width) -> (..., q, c): the (i, j)-th is
        the score of (candidate_j, p_i, o_i)."""
        return self.score(candidates.unsqueeze(-3), predicates.unsqueeze(-2), objects.unsqueeze(-2))


class QueryModel(Model):
    """A scoring function that is a query and a comparison."""

    by_queries = True
    comparator: Comparator

    @property
    def pair_width(self) -> int:
        return self.entity_width if self.comparator.broadcasts else 1

    @abstractmethod
    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        """(..., entity_width), (..., predicate_width) -> (..., entity_width): what a fitting object looks like."""

    @abstractmethod
    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        """(..., predicate_width), (..., entity_width) -> (..., entity_width): what a fitting subject looks like."""

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        return self.comparator.pairs(self.object_query(subjects, predicates), objects)

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        return self.comparator.outer(self.object_query(subjects, predicates), candidates)

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        return self.comparator.outer(self.subject_query(predicates, objects), candidates)


class GraphModel(Model):
    """A scoring function of embeddings that are encoded from the whole tables and the training graph."""

    @abstractmethod
    def encode(self, entities: Tensor, predicates: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """(E, entity_width), (R, predicate_width), and the training split (n, 3) -> two tables of the same shapes, the
        rows of which `score` takes. Called once a step, and once more for the tables that are kept."""


@dataclass(frozen=True)
class Embeddings:
    """The trained tables, float32, encoded if the model encodes: entities (E, entity_width), predicates
    (R, predicate_width), and by name what the model shares between all triples."""

    entities: Tensor
    predicates: Tensor
    shared: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device) -> "Embeddings":
        shared = {name: tensor.to(device) for name, tensor in self.shared.items()}
        return Embeddings(self.entities.to(device), self.predicates.to(device), shared)
