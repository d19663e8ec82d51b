"""Decision trees as arrays, and their exact contributions."""

from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints

LEAF = -1  # the feature of a leaf
ROWS_AT_ONCE = 2**14  # rows of a block, small enough for the processor's cache


@dataclass(frozen=True)
class Trees:
    """Trees whose values are added. A row goes left at a node if its feature is at most the threshold.

    roots      (t,) the node of each tree at which its rows start
    features   (m,) column of the feature of each node; LEAF for a leaf
    thresholds (m,)
    missing    (m,) whether a row whose feature is not known goes left
    left, right (m,) the next node
    values     (m,) what a leaf adds to the log-odds; 0 for other nodes
    cover      (m,) rows of the fit that reached the node
    """

    roots: Ints
    features: Ints
    thresholds: Floats
    missing: Bools
    left: Ints
    right: Ints
    values: Floats
    cover: Floats

    def sum(self, columns: npt.NDArray[np.float32]) -> Floats:
        """Return the sum of the values (n,) of the leaves that rows (n, d) reach.

        A row has the same sum, to the last bit, whichever rows are computed with it.
        """
        total = np.zeros(len(columns))
        for start in range(0, len(columns), ROWS_AT_ONCE):
            block = np.ascontiguousarray(columns[start : start + ROWS_AT_ONCE], dtype=np.float64)
            rows, part = np.arange(len(block)), total[start : start + ROWS_AT_ONCE]
            for root, depth in zip(self.roots.tolist(), self._depths, strict=True):
                node = np.full(len(block), root)
                for _ in range(depth):
                    value = block[rows, self.features[node]]
                    left = np.where(np.isnan(value), self.missing[node], value <= self.thresholds[node])
                    node = np.where(left, self.left[node], self.right[node])
                part += self.values[node]
        return total

    @cached_property
    def _depths(self) -> list[int]:
        """The most steps from each root to a leaf. At a leaf, both next nodes are the leaf itself."""
        depths = []
        for root in self.roots.tolist():
            level, depth = [root], 0
            while level := [
                after for node in level if self.features[node] != LEAF for after in (self.left[node], self.right[node])
            ]:
                depth += 1
            depths.append(depth)
        return depths

    def contributions(self, columns: npt.NDArray[np.float32]) -> tuple[float, Floats]:
        """Divide the sums among the d columns: return the constant, and the Shapley values (n, d).

        The value of a set S of features is the expected sum of a row of which only the features in S are known: at a
        node of another feature, a row goes left with the share of the fit's rows that did (Lundberg et al. 2018,
        "Consistent individualized feature attribution for tree ensembles", algorithm 1). The constant is the value of
        the empty set. Cost: for each leaf, the cube of the number of features on its path.
        """
        constant, found = 0.0, np.zeros(columns.shape)
        for features, shares, tests, value in self._paths:
            constant += value * float(np.prod(shares))
            holds = np.stack(
                [self._holds(columns[:, feature], own) for feature, own in zip(features, tests, strict=True)]
            )
            for j, feature in enumerate(features):
                others = [i for i in range(len(features)) if i != j]
                weight = _weighted_sets(holds[others], [shares[i] for i in others])
                found[:, feature] += value * (holds[j] - shares[j]) * weight
        return constant, found

    @staticmethod
    def _holds(column: npt.NDArray[np.float32], tests: list[tuple[float, bool, bool]]) -> Floats:
        """Return 1 for each row (n,) that passes every test, else 0.

        tests  threshold, whether missing goes left, whether the row must go left
        """
        value, passed = column.astype(np.float64), np.ones(len(column), dtype=bool)
        for threshold, missing, left in tests:
            passed &= np.where(np.isnan(value), missing, value <= threshold) == left
        return passed.astype(np.float64)

    @cached_property
    def _paths(self) -> list[tuple[list[int], list[float], list[list[tuple[float, bool, bool]]], float]]:
        """For each leaf: the features on its path, their shares of the rows, their tests, and the leaf's value."""
        found = []
        stack: list[tuple[int, dict[int, tuple[float, list[tuple[float, bool, bool]]]]]] = [
            (root, {}) for root in self.roots.tolist()
        ]
        while stack:
            node, path = stack.pop()
            feature = int(self.features[node])
            if feature == LEAF:
                shares, tests = [own[0] for own in path.values()], [own[1] for own in path.values()]
                found.append((list(path), shares, tests, float(self.values[node])))
                continue
            share, before = path.get(feature, (1.0, []))
            for after, is_left in ((int(self.left[node]), True), (int(self.right[node]), False)):
                test = (float(self.thresholds[node]), bool(self.missing[node]), is_left)
                part = share * float(self.cover[after] / self.cover[node])
                stack.append((after, path | {feature: (part, [*before, test])}))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the arrays as JSON values."""
        return {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`."""
        kinds = {"thresholds": np.float64, "values": np.float64, "cover": np.float64, "missing": np.bool_}
        return cls(**{name: np.array(data[name], kinds.get(name, np.int64)) for name in cls.__dataclass_fields__})


def _weighted_sets(holds: Floats, shares: list[float]) -> Floats:
    """Return sum over sets S of m features of |S|! (m - |S|)! / (m + 1)! times prod_S holds, prod_not_S shares: (n,).

    holds   (m, n) 1 if a row passes the tests of a feature, else 0
    shares  (m) shares of the fit's rows that pass them
    """
    m = len(shares)
    by_size = [np.ones(holds.shape[1])] + [np.zeros(holds.shape[1])] * m
    for own, share in zip(holds, shares, strict=True):
        by_size = [share * by_size[size] + (own * by_size[size - 1] if size else 0.0) for size in range(m + 1)]
    total: Floats = sum(
        (factorial(size) * factorial(m - size) / factorial(m + 1) * part for size, part in enumerate(by_size)),
        np.zeros(holds.shape[1]),
    )
    return total
