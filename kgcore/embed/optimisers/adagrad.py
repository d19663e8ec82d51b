"""Row-wise Adagrad: an optimiser for tables that leave no memory for Adam's moments."""

import torch
from torch import Tensor

from kgcore.embed.optimisers.base import RowOptimiser
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
    def step(self, rows: Tensor, gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor) -> None:
        """Update the rows (r,) with their gradient (r, d). `step` is not used."""
        flat = gradient.reshape(len(rows), -1)
        sums = self.sums.index_select(0, rows).add_(flat.square().mean(1))
        self.sums.index_copy_(0, rows, sums)
        moved = (flat / sums.sqrt().add_(self.EPSILON)[:, None]).mul_(learning_rate)
        self.table.index_copy_(0, rows, self.table.index_select(0, rows).sub_(moved.reshape(gradient.shape)))

    @staticmethod
    def state_bytes(rows: int, width: int) -> int:
        return 4 * rows


OPTIMISERS.add("adagrad", RowAdagrad)
