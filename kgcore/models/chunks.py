"""Comparisons of queries with the candidates that their chunk shares, in training on the CPU.

The result is that of `Comparator.outer`. Threads share the chunks, and the result does not depend on their number.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgcore.loops.chunks import (
    l1_gradients,
    l1_scores,
    l2_gradients,
    l2_scores,
    l2_weights,
    modulus_gradients,
    modulus_scores,
)
from kgcore.workers import Workers

PART = 2**21  # a thread compares chunks of so many products, or differences, at a time


class Chunks(torch.autograd.Function):
    """Scores (b, c, n) of queries (b, c, d) with candidates (b, n, d). Subclasses compute those of some chunks."""

    @staticmethod
    @abstractmethod
    def scores(queries: Tensor, candidates: Tensor, scores: Tensor) -> None:
        """Fill the scores."""

    @staticmethod
    @abstractmethod
    def gradients(
        queries: Tensor, candidates: Tensor, scores: Tensor, gradient: Tensor, of_queries: Tensor, of_candidates: Tensor
    ) -> None:
        """Fill the gradients of queries and candidates from the gradient of the scores."""

    @classmethod
    def forward(cls, ctx: Any, queries: Tensor, candidates: Tensor, workers: Workers) -> Tensor:
        queries, candidates = queries.detach().contiguous(), candidates.detach().contiguous()
        scores = queries.new_empty(*queries.shape[:2], candidates.shape[1])
        _run(workers, cls.scores, queries, candidates, scores)
        ctx.save_for_backward(queries, candidates, scores)
        ctx.workers, ctx.cls = workers, cls
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, candidates, scores = (part.detach() for part in ctx.saved_tensors)
        of_queries, of_candidates = torch.empty_like(queries), torch.empty_like(candidates)
        gradient = gradient.contiguous()
        _run(ctx.workers, ctx.cls.gradients, queries, candidates, scores, gradient, of_queries, of_candidates)
        return of_queries, of_candidates, None


class Dots(Chunks):
    """Dot products."""

    @staticmethod
    def scores(queries: Tensor, candidates: Tensor, scores: Tensor) -> None:
        torch.bmm(queries, candidates.mT, out=scores)

    @staticmethod
    def gradients(
        queries: Tensor, candidates: Tensor, scores: Tensor, gradient: Tensor, of_queries: Tensor, of_candidates: Tensor
    ) -> None:
        torch.bmm(gradient, candidates, out=of_queries)
        torch.bmm(gradient.mT, queries, out=of_candidates)


class L1(Chunks):
    """Negative L1 distances. torch.cdist takes five times as long forward, and more than twice as long backward."""

    @staticmethod
    def scores(queries: Tensor, candidates: Tensor, scores: Tensor) -> None:
        l1_scores(*_arrays(queries, candidates, scores))

    @staticmethod
    def gradients(
        queries: Tensor, candidates: Tensor, scores: Tensor, gradient: Tensor, of_queries: Tensor, of_candidates: Tensor
    ) -> None:
        l1_gradients(*_arrays(queries, candidates, gradient, of_queries, of_candidates))


class L2(Chunks):
    """Negative L2 distances, by products of matrices: ||q - e||^2 = ||q||^2 + ||e||^2 - 2 q e.

    Where this difference loses more than three bits, the distance and its gradient are computed by the formula.
    """

    @staticmethod
    def scores(queries: Tensor, candidates: Tensor, scores: Tensor) -> None:
        torch.bmm(queries, candidates.mT, out=scores)
        l2_scores(*_arrays(queries, candidates, scores))

    @staticmethod
    def gradients(
        queries: Tensor, candidates: Tensor, scores: Tensor, gradient: Tensor, of_queries: Tensor, of_candidates: Tensor
    ) -> None:
        weights = torch.empty_like(gradient)
        l2_weights(*_arrays(queries, candidates, scores, gradient, weights))
        torch.bmm(weights, candidates, out=of_queries)
        torch.bmm(weights.mT, queries, out=of_candidates)
        l2_gradients(*_arrays(queries, candidates, scores, gradient, weights, of_queries, of_candidates))


class Moduli(Chunks):
    """Negative sums of the moduli of complex differences."""

    @staticmethod
    def scores(queries: Tensor, candidates: Tensor, scores: Tensor) -> None:
        modulus_scores(*_arrays(queries, candidates, scores))

    @staticmethod
    def gradients(
        queries: Tensor, candidates: Tensor, scores: Tensor, gradient: Tensor, of_queries: Tensor, of_candidates: Tensor
    ) -> None:
        modulus_gradients(*_arrays(queries, candidates, gradient, of_queries, of_candidates))


def in_chunks(kind: type[Chunks], queries: Tensor, candidates: Tensor, workers: Workers) -> Tensor:
    """Score queries (b, c, d) with the candidates of their chunk (b, n, d): (b, c, n). Gradients follow."""
    scores: Tensor = kind.apply(queries, candidates, workers)  # type: ignore[no-untyped-call]
    return scores


def _run(workers: Workers, work: Callable[..., None], *tensors: Tensor) -> None:
    """Call `work` with the same chunks of all tensors, for some chunks at a time. Threads share the calls."""
    queries, candidates = tensors[:2]
    chunks = max(1, PART // max(1, queries[0].numel() * candidates.shape[1]))
    workers.run(lambda start, stop: work(*(part[start:stop] for part in tensors)), len(queries), chunks)


def _arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [part.numpy() for part in tensors]
