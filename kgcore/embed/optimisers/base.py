"""An optimiser of a large table. A step reads and updates only the rows that it uses."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor


class RowOptimiser(ABC):
    """An optimiser of a table (n, d) whose gradient is 0 except in a few rows. Only these rows and their state change.

    table  (n, d) the numbers that it changes
    """

    STATE: ClassVar[tuple[str, ...]]  # names of the attributes that checkpoints hold beside `table`

    def __init__(self, table: Tensor) -> None:
        self.table = table

    @abstractmethod
    def step(self, rows: Tensor, gradient: Tensor, step: int | Tensor, learning_rate: float | Tensor) -> None:
        """Update the rows (r,) with their gradient (r, d). `step` counts from 1.

        A row may occur more than once, if its gradient is the same each time. It is then updated once.
        """

    @staticmethod
    @abstractmethod
    def state_bytes(rows: int, width: int) -> int:
        """Return the bytes of the state of a table (rows, width), without the table itself."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return name -> tensor of all that a checkpoint must hold."""
        return {name: getattr(self, name) for name in ("table", *self.STATE)}
