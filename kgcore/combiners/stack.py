"""A weighted sum of combiners."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Ints
from kgcore.combiners.base import Combiner
from kgcore.evidence.table import Grid
from kgcore.registries import COMBINERS


@COMBINERS.register("stack")
@dataclass
class Stack(Combiner):
    """Log-odds = constant + sum_j w_j z_j, with the log-odds z_j of the members and weights w_j of at least 0.

    Members and weights come from a fit without labels (kgcore/combiners/unlabelled.py), or are the combiners of
    repeated cross-fitting with equal weights (kgcore/combiners/cross_fit.py). Since each z_j is non-decreasing in the
    score, so is the sum.

    names, members, weights  (m) registered names of the members, the fitted members, and their weights
    constant                 log-odds
    """

    names: tuple[str, ...] = ()
    members: tuple[Combiner, ...] = ()
    weights: tuple[float, ...] = ()
    constant: float = 0.0

    @classmethod
    def mean(cls, name: str, members: Sequence[Combiner]) -> Self:
        """Return the mean of fitted combiners, which have the registered name `name`."""
        count = len(members)
        return cls((name,) * count, tuple(members), (1 / count,) * count)

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        total = np.full(len(values), self.constant)
        for weight, member in zip(self.weights, self.members, strict=True):
            total = total + weight * member.log_odds(values, predicates)
        return total

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        constant, total = self.constant, np.zeros((len(values), values.shape[1] + 1))
        for weight, member in zip(self.weights, self.members, strict=True):
            base, own = member.contributions(values, predicates)
            constant, total = constant + weight * base, total + weight * own
        return constant, total

    def bounds(self, grid: Grid) -> tuple[Floats, Floats]:
        low = high = np.full(grid.tile.shape, self.constant)
        for weight, member in zip(self.weights, self.members, strict=True):
            least, most = member.bounds(grid)
            low, high = low + weight * least, high + weight * most
        return low, high

    def parameters(self) -> dict[str, Any]:
        members = [member.parameters() for member in self.members]
        return {
            "names": list(self.names),
            "members": members,
            "weights": list(self.weights),
            "constant": self.constant,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        names = tuple(parameters["names"])
        pairs = zip(names, parameters["members"], strict=True)
        members = tuple(COMBINERS.get(name).from_parameters(own) for name, own in pairs)
        return cls(names, members, tuple(parameters["weights"]), parameters["constant"])
