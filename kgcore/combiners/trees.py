"""Decision trees as arrays, and their sum for many rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints

LEAF = -1  # the feature of a leaf
MOST_LEAVES = 32  # of a tree: a set of its leaves is one 32-bit number
ROWS_AT_ONCE = 512  # bounds the memory, and keeps it in the processor's cache

Codes = npt.NDArray[np.int64]
Masks = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Split:
    """Which rows go left at a node.

    feature       column of the feature; d, the number of numeric features, is the category
    threshold     values up to it go left; not used for the category
    missing_left  whether a value that is not known goes left
    categories    bit c is set if category c goes left; 0 for a numeric feature
    """

    feature: int
    threshold: float
    missing_left: bool
    categories: int = 0


@dataclass(frozen=True)
class Trees:
    """Binary decision trees on d numeric features and one category. Nodes are in preorder, tree after tree.

    num_features    d
    num_categories  number of categories; other categories are not known
    splits          (m) the split of each node; None: a leaf
    values          (m,) what a leaf adds to the sum; 0 for other nodes
    covers          (m,) weight of the sample's rows that reach a node
    start           the sum before the first tree

    In preorder the first child of a node follows it, so the splits alone say which nodes are the children.
    """

    num_features: int
    num_categories: int
    splits: tuple[Split | None, ...]
    values: Floats
    covers: Floats
    start: float

    @cached_property
    def shape(self) -> "Shape":
        """The children and the leaves of the nodes."""
        return Shape.of(self.splits)

    @cached_property
    def thresholds(self) -> list[Floats]:
        """Return, for each numeric feature, the ascending distinct thresholds."""
        found: list[set[float]] = [set() for _ in range(self.num_features + 1)]
        for split in self.splits:
            if split is not None:
                found[split.feature].add(split.threshold)
        return [np.array(sorted(own)) for own in found[: self.num_features]]

    def codes(self, values: npt.NDArray[np.float32], categories: Ints) -> Codes:
        """Return for each feature, then for the category, what the splits can tell of each row (d + 1, n).

        values      (n, d); NaN: not known
        categories  (n,); -1: not known

        The code of a number is the count of the feature's thresholds below it. One more than the largest code: not
        known. The code of a category is the category itself, and `num_categories` if it is not known.
        """
        codes = np.empty((self.num_features + 1, len(values)), dtype=np.int64)
        for feature, thresholds in enumerate(self.thresholds):
            column = values[:, feature].astype(np.float64)
            codes[feature] = np.searchsorted(thresholds, column, side="left")
            codes[feature, np.isnan(column)] = len(thresholds) + 1
        codes[-1] = np.where(categories < 0, self.num_categories, categories)
        return codes

    def goes_left(self, split: Split) -> Bools:
        """Return, for each code of the split's feature, whether a row goes left."""
        if split.feature == self.num_features:
            known = [bool(split.categories >> category & 1) for category in range(self.num_categories)]
        else:
            thresholds = self.thresholds[split.feature]
            place = int(np.searchsorted(thresholds, split.threshold))
            known = [code <= place for code in range(len(thresholds) + 1)]
        return np.array([*known, split.missing_left])

    @cached_property
    def masks(self) -> dict[int, Masks]:
        """Return feature -> (codes, trees) the leaves of each tree that a row with this code may reach, as bits."""
        shape, tables = self.shape, dict[int, Masks]()
        for node, split in enumerate(self.splits):
            if split is None:
                continue
            left = self.goes_left(split)
            if split.feature not in tables:
                tables[split.feature] = np.full((len(left), shape.trees), 2**32 - 1, dtype=np.uint32)
            first, middle, last = shape.leaf_range(node)
            lost = np.where(left, (1 << last) - (1 << middle), (1 << middle) - (1 << first)).astype(np.uint32)
            tables[split.feature][:, shape.tree[node]] &= ~lost
        return tables

    def leaves(self, codes: Codes) -> Ints:
        """Return the number of the leaf (n, trees) that rows with codes (d + 1, n) reach in each tree.

        Each split excludes the leaves on its other side; the one that no split excludes is reached. Lucchese et al.,
        QuickScorer, SIGIR 2015, exclude only leaves to the left.
        """
        every = ((1 << self.shape.counts) - 1).astype(np.uint32)
        left = np.tile(every, (codes.shape[1], 1))
        for feature, table in self.masks.items():
            left &= np.take(table, codes[feature], axis=0)
        exponent: Ints = (left.astype(np.float32).view(np.int32) >> 23).astype(np.int64) - 127
        return exponent

    def sums(self, values: npt.NDArray[np.float32], categories: Ints) -> Floats:
        """Return the start plus the value of the leaf in each tree, added in the order of the trees, for rows (n,)."""
        table = np.zeros((self.shape.trees, MOST_LEAVES))
        table[self.shape.leaf_trees, self.shape.leaf_numbers] = self.values[self.shape.leaf_nodes]
        flat, offsets = table.ravel(), np.arange(self.shape.trees) * MOST_LEAVES
        found = np.empty(len(values))
        for first in range(0, len(values), ROWS_AT_ONCE):
            block = slice(first, first + ROWS_AT_ONCE)
            leaves = self.leaves(self.codes(values[block], categories[block]))
            terms = np.full((len(leaves), self.shape.trees + 1), self.start)
            np.take(flat, leaves + offsets, out=terms[:, 1:])
            # `accumulate` adds from left to right, in blocks of any size; `sum` does not promise an order
            found[first : first + len(leaves)] = np.add.accumulate(terms, axis=1)[:, -1]
        return found

    def with_covers(self, values: npt.NDArray[np.float32], categories: Ints, weights: Floats) -> "Trees":
        """Return the trees whose covers are the weights (n,) of rows that reach each node."""
        shape = self.shape
        sums = np.zeros(shape.trees * MOST_LEAVES)
        offsets = np.arange(shape.trees) * MOST_LEAVES
        for first in range(0, len(values), ROWS_AT_ONCE):
            block = slice(first, first + ROWS_AT_ONCE)
            leaves = self.leaves(self.codes(values[block], categories[block])) + offsets
            sums += np.bincount(leaves.ravel(), np.repeat(weights[block], shape.trees), len(sums))
        covers = np.zeros(len(self.splits))
        covers[shape.leaf_nodes] = sums.reshape(-1, MOST_LEAVES)[shape.leaf_trees, shape.leaf_numbers]
        for node in range(len(self.splits) - 1, -1, -1):
            if self.splits[node] is not None:
                covers[node] = covers[node + 1] + covers[shape.right[node]]
        return Trees(self.num_features, self.num_categories, self.splits, self.values, covers, self.start)

    def to_json(self) -> dict[str, Any]:
        """Return the trees as plain JSON."""
        splits = [split for split in self.splits if split is not None]
        leaves = self.shape.leaf_nodes
        return {
            "num_features": self.num_features,
            "num_categories": self.num_categories,
            "start": self.start,
            "features": [LEAF if split is None else split.feature for split in self.splits],
            "thresholds": [None if split.categories else split.threshold for split in splits],
            "missing_left": [int(split.missing_left) for split in splits],
            "categories": [f"{split.categories:x}" for split in splits if split.feature == self.num_features],
            "values": self.values[leaves].tolist(),
            "covers": self.covers.tolist(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the trees that `to_json` wrote."""
        d, features = int(data["num_features"]), data["features"]
        thresholds, missing, sets = iter(data["thresholds"]), iter(data["missing_left"]), iter(data["categories"])
        splits: list[Split | None] = []
        for feature in features:
            if feature == LEAF:
                splits.append(None)
                continue
            threshold, missing_left = next(thresholds), bool(next(missing))
            categories = int(next(sets), 16) if feature == d else 0
            splits.append(Split(feature, 0.0 if threshold is None else threshold, missing_left, categories))
        values = np.zeros(len(splits))
        values[[node for node, split in enumerate(splits) if split is None]] = data["values"]
        return cls(d, int(data["num_categories"]), tuple(splits), values, np.array(data["covers"]), data["start"])


@dataclass(frozen=True)
class Shape:
    """The children and the leaves of trees in preorder.

    right         (m,) the second child of a node; 0 for a leaf
    tree          (m,) the tree of a node
    first_leaf    (m,) number, in its tree, of the first leaf below a node
    num_leaves    (m,) number of leaves below a node
    counts        (trees,) number of leaves of each tree
    leaf_nodes    (leaves,) the nodes that are leaves, leaf_trees their trees, leaf_numbers their numbers in the tree
    """

    right: Ints
    tree: Ints
    first_leaf: Ints
    num_leaves: Ints
    counts: Ints
    leaf_nodes: Ints
    leaf_trees: Ints
    leaf_numbers: Ints

    @property
    def trees(self) -> int:
        return len(self.counts)

    def leaf_range(self, node: int) -> tuple[int, int, int]:
        """Return the first leaf below a node, the first one below its second child, and the end."""
        first = int(self.first_leaf[node])
        return first, int(self.first_leaf[self.right[node]]), first + int(self.num_leaves[node])

    @classmethod
    def of(cls, splits: tuple[Split | None, ...]) -> Self:
        """Find the children: from the end, a node that splits takes the last two nodes without a parent."""
        right, num = np.zeros(len(splits), dtype=np.int64), np.ones(len(splits), dtype=np.int64)
        loose: list[int] = []
        for node in range(len(splits) - 1, -1, -1):
            if splits[node] is not None:
                left, right[node] = loose.pop(), loose.pop()
                num[node] = num[left] + num[right[node]]
            loose.append(node)
        roots = np.array(loose[::-1], dtype=np.int64)
        tree = np.zeros(len(splits), dtype=np.int64)
        tree[roots[1:]] = 1
        tree = np.cumsum(tree)
        leaf = np.array([split is None for split in splits], dtype=bool)
        before = np.cumsum(leaf) - leaf
        first = before - before[roots][tree] if len(roots) else before
        nodes = np.flatnonzero(leaf)
        return cls(right, tree, first, num, num[roots], nodes, tree[nodes], first[nodes])
