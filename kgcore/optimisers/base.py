"""An optimiser of a large table. A step reads and updates only the rows that it uses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from torch import Tensor

from kgcore.arrays import Ints
from kgcore.loops.compiled import Array


class Uses(NamedTuple):
    """Distinct rows of a table and the gradients of their uses, from which `row_gradients` sums those of the rows.

    The names are those of `row_gradients` in kgcore/loops/rows.py.
    """

    kind: int
    rows: Ints
    starts: Ints
    order: Ints
    dense: Array
    queries: Array
    scores: Array
    gradient: Array
    sizes: tuple[int, int]


class RowOptimiser(ABC):
    """An optimiser of a table (n, d) whose gradient is 0 except in a few rows. Only these rows and their state change.

    table  (n, d) the numbers that it changes
    """

    STATE: ClassVar[tuple[str, ...]]  # names of the attributes that checkpoints hold beside `table`

    def __init__(self, table: Tensor) -> None:
        self.table = table

    @abstractmethod
    def step(self, rows: Tensor, gradient: Tensor, step: int, learning_rate: float) -> None:
        """Update the distinct rows (r,) with their gradient (r, d). `step` counts from 1."""

    @abstractmethod
    def updater(self, uses: Uses, step: int, learning_rate: float) -> Callable[[int, int], None]:
        """Return a function that updates uses.rows[start:stop] of a table in float32 on the CPU.

        Threads may call it at the same time for different rows.
        """

    @staticmethod
    @abstractmethod
    def state_bytes(rows: int, width: int) -> int:
        """Return the bytes of the state of a table (rows, width), without the table itself."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return name -> tensor of all that a checkpoint must hold."""
        return {name: getattr(self, name) for name in ("table", *self.STATE)}
