"""Comparators: functions that compare a query with the embedding of an entity."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from kgcore.compiling import compile_if_possible
from kgcore.kernels import fits_kernel, l1_distances, l1_gradients
from kgcore.models.options import check_norm

TILE_QUERIES, TILE_ENTITIES = 256, 2048  # size of a tile of L1 distances; training uses no tiles
TILED_FROM = 2**22  # fewest pairs of query and entity for which compiled tiles save time, as in ranking


class Comparator(ABC):
    """A symmetric function that scores a query and an entity, higher = more plausible.

    broadcasts  whether `outer` needs memory for d numbers per pair, not only for the pair's score
    """

    broadcasts = True

    @abstractmethod
    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score the i-th query with the i-th entity: (..., d) and (..., d) -> (...)."""

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Score every query with every candidate: (..., q, d) and (..., c, d) -> (..., q, c)."""
        return self.pairs(queries.unsqueeze(-2), entities.unsqueeze(-3))


class DotProduct(Comparator):
    """The dot product, sum_i q_i e_i."""

    broadcasts = False

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        return (queries * entities).sum(-1)

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        return queries @ entities.mT


class NegativeDistance(Comparator):
    """The negative distance, -||q - e||_n, for n = 1 or 2. Raises InputError if n is neither 1 nor 2."""

    broadcasts = False

    def __init__(self, norm: float) -> None:
        self.norm = check_norm(norm)

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        difference = queries - entities
        return -difference.abs().sum(-1) if self.norm == 1 else -difference.square().sum(-1).add(1e-12).sqrt()

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        if torch.compiler.is_dynamo_compiling():  # inductor fuses the formula into one pass
            return super().outer(queries, entities)
        many = queries.dim() == 2 and len(queries) * len(entities) >= TILED_FROM
        if self.norm == 1 and many and not torch.is_grad_enabled() and queries.device.type == "cpu":
            return -_tiled_l1(queries, entities)
        if self.norm == 1:
            distance: Tensor = _L1.apply(queries, entities)  # type: ignore[no-untyped-call]
            return -distance
        return -torch.cdist(queries, entities, p=2, compute_mode="donot_use_mm_for_euclid_dist")


def _tiled_l1(queries: Tensor, entities: Tensor) -> Tensor:
    """Return torch.cdist for p = 1 on a CPU, computed one tile of entities at a time.

    A tile fits in the CPU's cache. It is transposed, so that the i-th numbers of all its entities are contiguous. All
    tiles have the same shape, so that only one kernel is compiled.
    """
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
    """Return the compiled kernel of L1 distances for one width: (q, width), (width, c) -> (q, c)."""

    def kernel(queries: Tensor, columns: Tensor) -> Tensor:
        return (queries.unsqueeze(-1) - columns).abs().sum(1)

    return compile_if_possible(kernel, "ranking", instead=lambda queries, columns: torch.cdist(queries, columns.T, p=1))


class _L1(torch.autograd.Function):
    """torch.cdist for p = 1, with kernels for the CPU: a fifth of the time forward, less than half of it backward."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, entities: Tensor) -> Tensor:
        ctx.save_for_backward(queries, entities)
        if not _same_blocks(queries, entities):
            return torch.cdist(queries, entities, p=1)
        distances = queries.new_empty(*queries.shape[:-1], entities.shape[-2])
        l1_distances(_blocks(queries), _blocks(entities), _blocks(distances))
        return distances

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        queries, entities = ctx.saved_tensors
        if not _same_blocks(queries, entities):
            signs = (queries.unsqueeze(-2) - entities.unsqueeze(-3)).sgn_().mul_(gradient.unsqueeze(-1))
            return signs.sum(-2), signs.sum(-3).neg_()
        of_queries, of_entities = (torch.zeros(part.shape) for part in (queries, entities))
        parts = (queries, entities, gradient, of_queries, of_entities)
        l1_gradients(*(_blocks(part) for part in parts))
        return of_queries, of_entities


def _same_blocks(queries: Tensor, entities: Tensor) -> bool:
    """Return whether the kernels fit queries (..., q, d) and entities (..., c, d): nothing is broadcast."""
    return queries.shape[:-2] == entities.shape[:-2] and fits_kernel(queries, entities)


def _blocks(tensor: Tensor) -> Any:
    """Return a tensor (..., r, c) as an array (b, r, c), which shares its memory if the tensor is contiguous."""
    return tensor.detach().reshape(-1, *tensor.shape[-2:]).contiguous().numpy()
