"""The places where rows can go when the splits of a graph are drawn."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Ints
from kgcore.graph import SPLITS

TRAIN, VALID, TEST, LEFT_OUT = range(4)
PLACES = (*SPLITS, "left_out")


@dataclass(frozen=True)
class Shares:
    """The wanted shares of valid and test, above 0; their sum is below 1."""

    valid: float
    test: float

    @property
    def of_valid(self) -> float:
        """The share of valid in what is held out."""
        return self.valid / (self.valid + self.test)


def fill(sizes: Ints, wanted: float) -> Bools:
    """Choose entries in their order, each if it brings the sum of the sizes (n,) closer to `wanted`: a mask (n,)."""
    chosen, total = np.zeros(len(sizes), dtype=bool), 0
    for number, size in enumerate(sizes.tolist()):
        if total >= wanted:
            break
        if total + size - wanted < wanted - total:
            chosen[number], total = True, total + size
    return chosen
