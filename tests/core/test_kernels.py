"""The kernels of training, compared with plain PyTorch and with automatic differentiation."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.kernels import fits_kernel
from kgcore.models.comparators import NegativeDistance
from kgcore.optimisers.adam import RowAdam


@given(seed=st.integers(0, 99), rows=st.integers(1, 9), width=st.integers(1, 40), steps=st.integers(1, 4))
def test_adam_updates_rows_as_plain_pytorch_does(seed: int, rows: int, width: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    start = torch.from_numpy(rng.normal(size=(9, width)).astype(np.float32))
    fast, plain = RowAdam(start.clone()), RowAdam(start.clone())
    for step in range(1, steps + 1):
        numbers = torch.from_numpy(np.sort(rng.choice(9, rows, replace=False)))
        gradient = torch.from_numpy(rng.normal(size=(rows, width)).astype(np.float32))
        fast.step(numbers, gradient, step, 0.1)
        plain.plain_step(numbers, gradient, 1 - RowAdam.BETA2**step, 0.1 / (1 - RowAdam.BETA1**step))
    for part in ("table", "first", "second"):
        torch.testing.assert_close(getattr(fast, part), getattr(plain, part), rtol=1e-5, atol=1e-6)


def test_adam_is_that_of_pytorch_where_every_row_has_a_gradient() -> None:
    start = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    ours, parameter = RowAdam(start.clone()), torch.nn.Parameter(start.clone())
    adam = torch.optim.Adam([parameter], lr=0.05)
    for step in range(1, 20):
        gradient = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
        ours.step(torch.arange(7), gradient, step, 0.05)
        parameter.grad = gradient
        adam.step()
    torch.testing.assert_close(ours.table, parameter.detach(), rtol=1e-4, atol=1e-5)


def test_adam_updates_tables_of_more_dimensions_and_of_float64() -> None:
    for start in (torch.ones(4, 2, 3), torch.ones(4, 2, dtype=torch.float64)):
        adam = RowAdam(start.clone())
        adam.step(torch.tensor([1, 3]), torch.ones_like(start[:2]), 1, 0.1)
        torch.testing.assert_close(adam.table[1], torch.full_like(start[1], 0.9))
        torch.testing.assert_close(adam.table[0], start[0])


@pytest.mark.parametrize("shape", [((3, 5, 8), (3, 4, 8)), ((5, 7), (2, 7)), ((2, 3, 1, 4), (2, 3, 6, 4))])
def test_l1_distances_and_their_gradients(shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(3)
    numbers = [rng.integers(-4, 5, size).astype(np.float32) / 2 for size in shape]  # some differences are 0
    queries, entities = (torch.from_numpy(part).requires_grad_() for part in numbers)
    assert fits_kernel(queries, entities)
    weights = torch.from_numpy(rng.normal(size=(*shape[0][:-1], shape[1][-2])).astype(np.float32))
    found = NegativeDistance(1).outer(queries, entities)
    gradients = torch.autograd.grad((found * weights).sum(), (queries, entities))
    plain = -(queries.unsqueeze(-2) - entities.unsqueeze(-3)).abs().sum(-1)
    torch.testing.assert_close(found, plain)
    for ours, theirs in zip(gradients, torch.autograd.grad((plain * weights).sum(), (queries, entities)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_l1_distances_of_float64_need_no_kernel() -> None:
    queries = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    entities = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    assert not fits_kernel(queries)
    torch.autograd.gradcheck(NegativeDistance(1).outer, (queries, entities))


def test_numbers_that_are_not_finite_stay() -> None:
    queries = torch.tensor([[[0.0] * 20, [np.nan] * 20, [np.inf] * 20]], requires_grad=True)
    distances = -NegativeDistance(1).outer(queries, torch.zeros(1, 1, 20))
    assert distances[0, 0, 0] == 0
    assert distances[0, 1, 0].isnan()
    assert distances[0, 2, 0].isinf()
    adam = RowAdam(torch.zeros(3, 20))
    adam.step(torch.tensor([1]), torch.full((1, 20), np.nan), 1, 0.1)
    assert adam.table.isnan().sum(1).tolist() == [0, 20, 0]
