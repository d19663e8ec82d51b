"""Combiners of folds, each of which judges the triples that it has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints
from kgcore.combiners.base import Combiner
from kgcore.evidence.table import Grid
from kgcore.registries import COMBINERS


@COMBINERS.register("folded")
@dataclass
class Folded(Combiner):
    """The log-odds of a triple are those of the member whose sample lacked the triple's fold.

    The fold is a function of the triple (kgcore/evidence/fold.py), and is the last feature. So a triple has the same
    log-odds wherever it is asked about, and a map that is fitted to the log-odds of the sample's rows is right for all
    other triples: none of them was judged by a member that had seen it.

    Members are fitted to samples that hold more candidates with high scores than a population does. For a triple whose
    score is below the limit of its predicate, the log-odds are less by `step`, which corrects for it (Fithian & Hastie,
    Annals of Statistics 42, 2014). They stay non-decreasing in the score.

    name     registered name of the members
    members  (K) fitted combiners of the other features; member k was fitted without the triples of fold k
    limits   position of a predicate -> lowest score that is high; a predicate without a limit has high scores only
    step     at least 0
    column   position of the feature `score`
    """

    name: str = ""
    members: tuple[Combiner, ...] = ()
    limits: Mapping[int, float] = field(default_factory=dict)
    step: float = 0.0
    column: int = 0

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        log_odds = np.empty(len(values))
        for rows, member in self._parts(values):
            log_odds[rows] = member.log_odds(values[rows, :-1], predicates[rows])
        return log_odds - self.step * self.is_low(values, predicates)

    def is_low(self, values: npt.NDArray[np.float32], predicates: Ints) -> Bools:
        """Return whether the score of each triple (n,) is below the limit of its predicate."""
        limits = np.full(1 + max([0, *self.limits, int(predicates.max(initial=0))]), -np.inf, dtype=np.float32)
        for predicate, score in self.limits.items():
            limits[predicate] = score
        low: Bools = values[:, self.column] < limits[predicates]
        return low

    def bounds(self, grid: Grid) -> tuple[Floats, Floats]:
        shape = grid.tile.shape
        fold_column = grid.column(len(grid.features.names) - 1).column
        folds = np.broadcast_to(fold_column.of_pairs(fold_column.low), shape)
        low, high = np.empty(shape), np.empty(shape)
        for fold in np.unique(folds).tolist():
            chosen = folds == fold
            for own, bound in zip((low, high), self.members[int(fold)].bounds(grid), strict=True):
                own[chosen] = bound[chosen]
        if grid.tile.predicate in self.limits:
            score, limit = grid.column(self.column), np.float32(self.limits[grid.tile.predicate])
            for own, table in ((low, score.column.low), (high, score.column.high)):
                scores = np.broadcast_to(score.column.of_pairs(table), shape).copy()
                scores.ravel()[score.apart] = score.values
                own -= self.step * (scores < limit)
        return low, high

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        """Divide log-odds among the features. The constant is the mean of the members'; the fold has the difference."""
        divided = [
            (rows, *member.contributions(values[rows, :-1], predicates[rows])) for rows, member in self._parts(values)
        ]
        constant = float(np.mean([base for _, base, _ in divided])) if divided else 0.0
        shares = np.zeros((len(values), values.shape[1] + 1))
        for rows, base, parts in divided:
            shares[rows[:, None], np.r_[: values.shape[1] - 1, values.shape[1]]] = parts
            shares[rows, -2] = base - constant
        shares[:, self.column] -= self.step * self.is_low(values, predicates)
        return constant, shares

    def parameters(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "members": [member.parameters() for member in self.members],
            "limits": {str(predicate): score for predicate, score in self.limits.items()},
            "step": self.step,
            "column": self.column,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        kind = COMBINERS.get(parameters["name"])
        members = tuple(kind.from_parameters(own) for own in parameters["members"])
        limits = {int(predicate): float(score) for predicate, score in parameters["limits"].items()}
        return cls(parameters["name"], members, limits, parameters["step"], parameters["column"])

    def _parts(self, values: npt.NDArray[np.float32]) -> Sequence[tuple[Ints, Combiner]]:
        """Return the rows of each fold that has some, with their member."""
        folds = values[:, -1].astype(np.int64)
        return [(np.flatnonzero(folds == fold), self.members[fold]) for fold in np.unique(folds).tolist()]
