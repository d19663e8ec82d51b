"""Combiners that are made of fitted ones: a weighted sum, and one for each fold of triples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints
from kgcore.combiners.base import Combiner
from kgcore.evidence.table import Grid
from kgcore.registries import COMBINERS


@COMBINERS.register("stack")
@dataclass
class Stack(Combiner):
    """Log-odds = constant + sum_j w_j z_j, with the log-odds z_j of the members and weights w_j of at least 0.

    Members and weights come from a fit without labels (kgcore/combiners/unlabelled.py), or are the combiners of
    repeated cross-fitting with equal weights (kgcore/combiners/fit.py). Since each z_j is non-decreasing in the
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


@COMBINERS.register("folded")
@dataclass
class Folded(Combiner):
    """The log-odds of a triple are those of the member whose sample lacked the triple's fold.

    The fold is a function of the triple (kgcore/evidence/fold.py), and is the last feature. So a triple has the same
    log-odds wherever it is asked about, and a map that is fitted to the log-odds of the sample's rows is right for all
    other triples: none of them was judged by a member that had seen it.

    Members are fitted to samples that hold more of the promising candidates than a population does: of those with a
    high score, and of those that a rule proposes. For any other triple the log-odds are less by `step`, which corrects
    for it (Fithian & Hastie, Annals of Statistics 42, 2014). They stay non-decreasing in the score.

    name     registered name of the members
    members  (K) fitted combiners of the other features; member k was fitted without the triples of fold k
    limits   position of a predicate -> lowest score that is high; a predicate without a limit has high scores only
    rules    position of a predicate -> lowest confidence, rule_best, of a rule that proposes; without it, no rule does
    step     at least 0
    column   position of the feature `score`
    rule     position of the feature `rule_best`; -1: the members do not see it
    """

    name: str = ""
    members: tuple[Combiner, ...] = ()
    limits: Mapping[int, float] = field(default_factory=dict)
    rules: Mapping[int, float] = field(default_factory=dict)
    step: float = 0.0
    column: int = 0
    rule: int = -1

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        log_odds = np.empty(len(values))
        for rows, member in self._parts(values):
            log_odds[rows] = member.log_odds(values[rows, :-1], predicates[rows])
        return log_odds - self.step * self.is_low(values, predicates)

    def is_low(self, values: npt.NDArray[np.float32], predicates: Ints) -> Bools:
        """Return which triples (n,) are not promising: those with a score below the limit that no rule proposes."""
        low: Bools = values[:, self.column] < _by_predicate(self.limits, -np.inf, predicates)
        return low & (values[:, self.rule] < _by_predicate(self.rules, np.inf, predicates)) if self.rules else low

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
            proposed = np.zeros(shape, dtype=bool)
            if grid.tile.predicate in self.rules:
                rule = grid.column(self.rule)
                proposed.ravel()[rule.apart] = rule.values >= np.float32(self.rules[grid.tile.predicate])
            for own, table in ((low, score.column.low), (high, score.column.high)):
                scores = np.broadcast_to(score.column.of_pairs(table), shape).copy()
                scores.ravel()[score.apart] = score.values
                own -= self.step * ((scores < limit) & ~proposed)
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
            "rules": {str(predicate): confidence for predicate, confidence in self.rules.items()},
            "step": self.step,
            "column": self.column,
            "rule": self.rule,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        kind = COMBINERS.get(parameters["name"])
        members = tuple(kind.from_parameters(own) for own in parameters["members"])
        limits, rules = ({int(p): float(x) for p, x in parameters[name].items()} for name in ("limits", "rules"))
        name, step, column, rule = (parameters[key] for key in ("name", "step", "column", "rule"))
        return cls(name, members, limits, rules, step, column, rule)

    def _parts(self, values: npt.NDArray[np.float32]) -> Sequence[tuple[Ints, Combiner]]:
        """Return the rows of each fold that has some, with their member."""
        folds = values[:, -1].astype(np.int64)
        return [(np.flatnonzero(folds == fold), self.members[fold]) for fold in np.unique(folds).tolist()]


def _by_predicate(limits: Mapping[int, float], others: float, predicates: Ints) -> npt.NDArray[np.float32]:
    """Return the limit of each predicate (n,), `others` for those without one."""
    table = np.full(1 + max([0, *limits, int(predicates.max(initial=0))]), others, dtype=np.float32)
    for predicate, limit in limits.items():
        table[predicate] = limit
    return table[predicates]
