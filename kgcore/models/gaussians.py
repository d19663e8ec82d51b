"""Comparators of Gaussian distributions with diagonal covariances."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.gaussians import divergence_gradients, divergence_tile, divergences
from kgcore.models import tiles
from kgcore.models.comparators import ROUNDING, Comparator, Tiling, as_blocks

LEAST_VARIANCE = 0.05  # the published lower bound
TILED_FROM = 2**16  # fewest pairs of query and entity for which compiled tiles save time


def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means and the variances of embeddings (..., 2k): (..., k) each."""
    mean, spread = rows.chunk(2, -1)
    return mean, LEAST_VARIANCE + softplus(spread)


class Likelihood(Comparator):
    """The logarithm of the integral of the product of two densities, N(m - m', v + v') and N(0, w).

    -1/2 sum_i [d_i^2 / V_i + log(2 pi V_i)], where V = v + v' + w and d = m - m'

    A query is (m, v, w), 3k numbers. An entity is an embedding of 2k numbers; its `moments` are (m', v').
    """

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        (mean, variance, weight), (other, own) = queries.chunk(3, -1), moments(entities)
        total = variance + own + weight
        return -((mean - other).square() / total + (2 * math.pi * total).log()).sum(-1) / 2


class Divergence(Comparator):
    """The negative Kullback-Leibler divergence of N(m - m', v + v') from N(0, w).

    -1/2 sum_i [(V_i + d_i^2) / w_i - log(V_i / w_i) - 1], where V = v + v' and d = m - m'

    Queries and entities are as in `Likelihood`.
    """

    broadcasts = False

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        (mean, variance, weight), (other, own) = queries.chunk(3, -1), moments(entities)
        ratio = (variance + own) / weight
        return -(ratio - ratio.log() - 1 + (mean - other).square() / weight).sum(-1) / 2

    def outer(self, queries: Tensor, entities: Tensor) -> Tensor:
        fits = fits_cpu_loops(queries, entities) and not torch.compiler.is_dynamo_compiling()
        if fits and torch.is_grad_enabled() and queries.shape[:-2] == entities.shape[:-2]:
            divergence: Tensor = _Divergence.apply(queries, entities)  # type: ignore[no-untyped-call]
            return -divergence
        if torch.is_grad_enabled() or queries.dim() != 2:
            return super().outer(queries, entities)
        if fits and len(queries) * len(entities) >= TILED_FROM:
            return tiles.by_tiles(self._tile, self._columns, queries, entities)
        return self.outer_of_parts(queries, entities)

    def tiling(self, pairs: int, width: int) -> Tiling:
        if pairs < TILED_FROM:
            return Tiling(scores=self.outer_of_parts)
        # A sum of k numbers of a tile and one of `pairs` err by at most this share of the sum of |V_i / w_i - 1| and of
        # d_i^2 / w_i. For a score f, that sum is at most 4 |f| + k, because |x - 1| <= 2 (x - log x - 1) + 1
        k = width // 2
        share = 2 * (k + 32) * ROUNDING
        return Tiling(scores=self._tile, arranged=self._columns, settled=self.pairs, times=4 * share, plus=k * share)

    def _columns(self, entities: Tensor) -> Tensor:
        return tiles.columns_of(torch.cat(moments(entities), -1))

    def _tile(self, queries: Tensor, columns: Tensor) -> Tensor:
        return -tiles.by_kernel(divergence_tile, queries, columns)


class _Divergence(torch.autograd.Function):
    """The divergences (..., q, c) of queries (..., q, 3k) and entities (..., c, 2k), on the CPU."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, entities: Tensor) -> Tensor:
        own = torch.cat(moments(entities), -1)
        ctx.save_for_backward(queries, entities, own)
        found = queries.new_empty(*queries.shape[:-1], entities.shape[-2])
        q, e, out = (as_blocks(part) for part in (queries, own, found))
        tiles.share(lambda start, stop: divergences(q, e, out, start, stop), len(q))
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        queries, entities, own = ctx.saved_tensors
        of_queries, of_entities = torch.empty(queries.shape), torch.empty(entities.shape)
        q, e, g, of_q, of_e = (as_blocks(part) for part in (queries, own, gradient, of_queries, of_entities))
        tiles.share(lambda start, stop: divergence_gradients(q, e, g, of_q, of_e, start, stop), len(q))
        of_variances = of_entities.chunk(2, -1)[1]
        of_variances *= entities.chunk(2, -1)[1].sigmoid()  # the derivative of softplus
        return of_queries, of_entities
