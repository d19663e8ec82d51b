"""Row-wise Adagrad: an optimiser for tables that leave no memory for Adam's moments."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.updates import adagrad_rows, adagrad_uses
from kgcore.optimisers.base import RowOptimiser, Uses
from kgcore.registries import OPTIMISERS


class RowAdagrad(RowOptimiser):
    """Row-wise Adagrad for a table (n, d): one number for each row, where Adam has 2 d.

    s <- s + mean_j g_j^2;  x <- x - lr g / (sqrt(s) + eps)

    Adagrad (Duchi, Hazan & Singer, JMLR 12, 2011) has a sum s for each number of the table. Its mean over a row is the
    form of PyTorch-BigGraph (Lerer et al., MLSys 2019, section 4.2). eps = 1e-10. A row's steps shrink as it is used,
    so a learning rate is 10 to 20 times that of Adam.

    sums  (n,) the sums s
    """

    STATE = ("sums",)
    EPSILON = 1e-10

    def __init__(self, table: Tensor) -> None:
        super().__init__(table)
        self.sums = torch.zeros(len(table), device=table.device)

    @torch.no_grad()
    def step(self, rows: Tensor, gradient: Tensor, step: int, learning_rate: float) -> None:
        """Update the distinct rows (r,) with their gradient (r, d). `step` is not used."""
        if fits_cpu_loops(self.table, gradient) and self.table.dim() == 2:
            state = (self.table.numpy(), self.sums.numpy())
            adagrad_rows(*state, rows.numpy(), gradient.contiguous().numpy(), learning_rate, self.EPSILON, 0, len(rows))
        else:
            self.plain_step(rows, gradient, learning_rate)

    def updater(self, uses: Uses, step: int, learning_rate: float) -> Callable[[int, int], None]:
        return partial(adagrad_uses, *uses, self.table.numpy(), self.sums.numpy(), learning_rate, self.EPSILON)

    def plain_step(self, rows: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Do the same in PyTorch, for any device."""
        flat = gradient.reshape(len(rows), -1)
        sums = self.sums.index_select(0, rows).add_(flat.square().mean(1))
        self.sums.index_copy_(0, rows, sums)
        moved = flat / sums.sqrt().add_(self.EPSILON)[:, None]
        self.table.index_add_(0, rows, moved.reshape(gradient.shape), alpha=-learning_rate)

    @staticmethod
    def state_bytes(rows: int, width: int) -> int:
        return 4 * rows


OPTIMISERS.add("adagrad", RowAdagrad)
