"""Comparators: functions that compare a query with the embedding of an entity."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from kgcore.models.options import check_norm

LARGEST_ON_CPU, LARGEST_ON_GPU = 2**20, 2**25  # numbers of a query and an entity, for all pairs at a time


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
