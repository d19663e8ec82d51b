"""Optimisers of large tables. A step reads and updates only the rows that it uses."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from kgcore.registries import OPTIMISERS


class RowOptimiser(ABC):
    """An optimiser of a table (n, d) whose gradient is 0 except in a few rows. Only these rows and their state change.

    table  (n, d) the numbers that it changes
    """

    STATE: ClassVar[tuple[str, ...]]  # names of the attributes that checkpoints hold beside `table`

    def __init__(self, table: Tensor) -> None:
        self.table = table

    @torch.no_grad()
    def step(self, rows: Tensor, gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor) -> None:
        """Update the rows (r,) with their gradient (r, d). `step` counts from 1.

        A row may occur more than once, if its gradient is the same each time. It is then updated once.
        """
        all_rows = self.tensors().values()
        moved = self.moved([tensor.index_select(0, rows) for tensor in all_rows], gradient, step, learning_rate)
        for tensor, new in zip(all_rows, moved, strict=True):
            tensor.index_copy_(0, rows, new)

    @torch.no_grad()
    def step_where(self, used: Tensor, gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor) -> None:
        """Update the rows in the mask (n,) with their part of the gradient (n, d): as `step`, in one pass of the table.

        On a GPU, a pass of a table of some million numbers is faster than to gather and scatter rows.
        """
        all_rows = self.tensors().values()
        moved = self.moved([*all_rows], gradient, step, learning_rate)
        for tensor, new in zip(all_rows, moved, strict=True):
            tensor.copy_(torch.where(used.view(-1, *[1] * (tensor.dim() - 1)), new, tensor))

    @staticmethod
    @abstractmethod
    def moved(
        rows: Sequence[Tensor], gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor
    ) -> Sequence[Tensor]:
        """Return the new rows of the table and of each tensor of `STATE`. The given ones stay as they are."""

    @staticmethod
    @abstractmethod
    def state_bytes(rows: int, width: int) -> int:
        """Return the bytes of the state of a table (rows, width), without the table itself."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return name -> tensor of all that a checkpoint must hold."""
        return {name: getattr(self, name) for name in ("table", *self.STATE)}


class RowAdam(RowOptimiser):
    """Adam for a table (n, d).

    m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  x <- x - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    Kingma & Ba, ICLR 2015, with b1 = 0.9, b2 = 0.999, eps = 1e-8. Dense Adam also decays the moments of all other rows
    and moves these rows, so that a step costs O(n). This class leaves them unchanged, so that a step costs O(updated
    rows): 14 times less on WN11.

    first, second  (n, d) the moments m and v
    """

    STATE = ("first", "second")
    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, table: Tensor) -> None:
        super().__init__(table)
        self.first, self.second = torch.zeros_like(table), torch.zeros_like(table)

    @staticmethod
    def moved(
        rows: Sequence[Tensor], gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor
    ) -> Sequence[Tensor]:
        """Return the rows after step t of the formula."""
        (table, first, second), (b1, b2) = rows, (RowAdam.BETA1, RowAdam.BETA2)
        first = first.mul(b1).add_(gradient, alpha=1 - b1)
        second = second.mul(b2).addcmul_(gradient, gradient, value=1 - b2)
        spread = second.div(1 - b2**step).sqrt_().add_(RowAdam.EPSILON)
        return table - first.div(spread).mul_(learning_rate / (1 - b1**step)), first, second

    @staticmethod
    def state_bytes(rows: int, width: int) -> int:
        return 8 * rows * width


OPTIMISERS.add("adam", RowAdam)


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

    @staticmethod
    def moved(
        rows: Sequence[Tensor], gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor
    ) -> Sequence[Tensor]:
        """Return the rows after a step of the formula. `step` is not used."""
        table, sums = rows
        flat = gradient.reshape(len(sums), -1)
        sums = sums + flat.square().mean(1)
        moved = (flat / sums.sqrt().add_(RowAdagrad.EPSILON)[:, None]).mul_(learning_rate)
        return table - moved.reshape(gradient.shape), sums

    @staticmethod
    def state_bytes(rows: int, width: int) -> int:
        return 4 * rows


OPTIMISERS.add("adagrad", RowAdagrad)
