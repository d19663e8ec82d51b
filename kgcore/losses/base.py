"""The base class of training losses."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kgcore.loops.compiled import fits_cpu_loops
from kgcore.workers import Workers

NO_CORRUPTION = -1e4  # the score of an ignored corruption: so low that it adds nothing to any loss or gradient
ROWS = 2**16  # a thread computes the loss of so many scores of corruptions at a time


class Loss(ABC):
    """A function that maps scores to a scalar. The keyword arguments of its constructor are its options.

    A loss is a sum over the positives. Each loss states how it combines the corruptions of a positive.
    """

    @abstractmethod
    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        """Return the loss, at least 0, from the scores of positives (b,) and of their corruptions (b, eta)."""

    def of_confidences(self, positives: Tensor, corruptions: Tensor, confidences: Tensor) -> Tensor:
        """Return the loss of positives with confidences c (b,) in [0, 1]: sum_i c_i L(f(t_i), corruptions of t_i).

        With confidences of 1 it is the loss. A loss of single triples overrides this: it takes a triple as c of a true
        one and 1 - c of a false one, so that the score also learns that a low confidence is low.
        """
        each = torch.vmap(self)(positives.unsqueeze(-1), corruptions.unsqueeze(-2))
        return (confidences * each).sum()

    def kernel(self) -> tuple[Callable[..., float], tuple[float, ...]] | None:
        """Return the loss's loop in kgcore/loops/losses.py and its constants; None: it has none."""
        return None

    def counted(
        self, positives: Tensor, corruptions: Tensor, left_out: Tensor, workers: Workers | None = None
    ) -> Tensor:
        """Return the loss, which ignores the corruptions where `left_out` (b, eta) is true.

        workers  the threads that share the loss's loop; None: compute it in PyTorch
        """
        found = self.kernel() if workers and fits_cpu_loops(positives, corruptions) else None
        if found is None:
            return self(positives, corruptions.masked_fill(left_out, NO_CORRUPTION))
        loss: Tensor = _Loop.apply(positives, corruptions, left_out, found, workers)  # type: ignore[no-untyped-call]
        return loss


class _Loop(torch.autograd.Function):
    """The value of a loss by its loop. The loop also computes the gradients, which the backward pass returns."""

    @staticmethod
    def forward(
        ctx: Any,
        positives: Tensor,
        corruptions: Tensor,
        left_out: Tensor,
        kernel: tuple[Callable[..., float], tuple[float, ...]],
        workers: Workers,
    ) -> Tensor:
        loop, constants = kernel
        scores = [part.detach().contiguous() for part in (positives, corruptions, left_out)]
        gradients = [torch.empty_like(part) for part in scores[:2]]
        arrays, results = [part.numpy() for part in scores], [part.numpy() for part in gradients]
        rows = max(1, ROWS // max(1, corruptions.shape[1]))
        losses = dict[int, float]()

        def work(start: int, stop: int) -> None:
            losses[start] = loop(*arrays, *constants, *results, start, stop)

        workers.run(work, len(positives), rows)
        ctx.save_for_backward(*gradients)
        return positives.new_tensor(sum(losses[start] for start in sorted(losses)))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if gradient != 1:
            gradients = [part * gradient for part in gradients]
        return *gradients, None, None, None
