"""Adam that updates single rows, compared with PyTorch's Adam."""

import numpy as np
import pytest
import torch

from kgcore.embed.optimisers.base import RowAdagrad, RowAdam, RowOptimiser


def test_row_adam_equals_adam_when_every_step_has_every_row() -> None:
    torch.manual_seed(0)
    start, target = torch.randn(6, 4), torch.randn(6, 4)
    reference = start.clone().requires_grad_()
    adam = torch.optim.Adam([reference], lr=0.01)
    ours = RowAdam(start.clone())
    for step in range(1, 30):
        adam.zero_grad()
        ((reference - target) ** 2).sum().backward()
        adam.step()
        order = torch.randperm(6)
        ours.step(order, 2 * (ours.table - target)[order], step, 0.01)
    np.testing.assert_allclose(ours.table, reference.detach(), atol=1e-6)


def test_other_rows_do_not_change() -> None:
    adam = RowAdam(torch.ones(5, 2))
    adam.step(torch.tensor([1, 3]), torch.ones(2, 2), 1, 0.1)
    assert adam.table[[0, 2, 4]].eq(1).all()
    assert adam.table[[1, 3]].lt(1).all()


@pytest.mark.parametrize("optimiser", [RowAdam, RowAdagrad])
def test_one_pass_of_the_table_changes_the_rows_of_a_mask_as_a_step_does(optimiser: type[RowOptimiser]) -> None:
    torch.manual_seed(0)
    start, rows, used = torch.randn(6, 2, 3), torch.tensor([4, 0, 3]), torch.zeros(6, dtype=torch.bool)
    by_row, in_one_pass = optimiser(start.clone()), optimiser(start.clone())
    for step in (1, 2, 3):
        gradient = torch.randn(6, 2, 3)
        by_row.step(rows, gradient[rows], step, 0.1)
        in_one_pass.step_where(used.index_fill(0, rows, True), gradient, step, 0.1)
    for name, tensor in by_row.tensors().items():
        torch.testing.assert_close(in_one_pass.tensors()[name], tensor)
