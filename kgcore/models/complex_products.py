"""Products of complex numbers, stored as real numbers: (..., 2k), real parts first."""

from typing import Any

import torch
from torch import Tensor

from kgcore.loops.compiled import Array, fits_cpu_loops, loop


def products(a: Tensor, b: Tensor, *, conjugated: bool = False) -> Tensor:
    """Return a_i b_i, or conj(a_i) b_i if `conjugated`."""
    training = torch.is_grad_enabled() and not torch.compiler.is_dynamo_compiling()
    if training and a.dim() == 2 and a.shape == b.shape and fits_cpu_loops(a, b):
        found: Tensor = _Products.apply(a, b, conjugated)  # type: ignore[no-untyped-call]
        return found
    (a_re, a_im), (b_re, b_im) = a.chunk(2, -1), b.chunk(2, -1)
    if conjugated:
        return torch.cat([a_re * b_re + a_im * b_im, a_re * b_im - a_im * b_re], -1)
    return torch.cat([a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re], -1)


@loop
def _multiply(a: Array, b: Array, conjugated: bool, out: Array) -> None:
    """Fill out (n, 2k) with the products of a and b."""
    k = a.shape[1] // 2
    for row in range(len(a)):
        for i in range(k):
            a_re, a_im, b_re, b_im = a[row, i], a[row, k + i], b[row, i], b[row, k + i]
            a_im = -a_im if conjugated else a_im
            out[row, i] = a_re * b_re - a_im * b_im
            out[row, k + i] = a_re * b_im + a_im * b_re


class _Products(torch.autograd.Function):
    """The products of rows in training on a CPU, in one pass. Its gradients are products, too."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.conjugated = conjugated
        return _product(a, b, conjugated)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        if ctx.conjugated:
            return _product(gradient, b, True), _product(a, gradient, False), None
        return _product(b, gradient, True), _product(a, gradient, True), None


def _product(a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
    a, b = a.detach().contiguous(), b.detach().contiguous()
    out = torch.empty_like(a)
    _multiply(a.numpy(), b.numpy(), conjugated, out.numpy())
    return out
