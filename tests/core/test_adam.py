"""Adam that updates single rows, compared with PyTorch's Adam."""

import numpy as np
import torch

from kgcore.embed.optimisers.base import RowAdam


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
