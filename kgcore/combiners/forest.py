"""Bounds of a sum of decision trees for all pairs of a tile: what does not depend on the pair is computed once.

The plain form is LightGBM's `predict`. The bounds of a pair are equal to it, to the last bit, if its features are known
exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Ints
from kgcore.evidence.table import Grid, TileColumn
from kgcore.loops.evidence import LINE, Codes, Leaves, fill_bounds, fill_codes

MOST_LEAVES = 32  # of a tree: a set of its leaves is one 32-bit number
Masks = npt.NDArray[np.uint32]
_Column = tuple[int, TileColumn]  # a feature


@dataclass(frozen=True)
class TreeSplit:
    """Which rows go left at a node, and the leaves below the node. The leaves on the left come first.

    below         values up to it go left; or the set of the categories that go left
    missing_left  whether a value that is not known goes left
    leaves        the first leaf, the first one on the right, and the end
    """

    tree: int
    feature: int
    below: float | frozenset[int]
    missing_left: bool
    leaves: tuple[int, int, int]


@dataclass(frozen=True)
class Forest:
    """The trees of LightGBM on d numeric features and one category, as the leaves that each split excludes.

    A row reaches the leaf of a tree that no split excludes (Lucchese et al., QuickScorer, SIGIR 2015).

    splits          of all trees
    values          (trees, MOST_LEAVES) what each leaf adds to the sum
    counts          (trees,) number of leaves
    num_categories  other categories are not known
    num_features    d; the category is the feature d
    """

    splits: tuple[TreeSplit, ...]
    values: Floats
    counts: Ints
    num_features: int
    num_categories: int

    @classmethod
    def of(cls, trees: Sequence[Mapping[str, Any]], num_features: int, num_categories: int) -> Self:
        """Read the trees of LightGBM's `dump_model`."""
        splits, values = list[TreeSplit](), np.zeros((len(trees), MOST_LEAVES))

        def read(tree: int, node: Mapping[str, Any], first: int) -> int:
            """Read a node whose first leaf is `first`. Return the end of its leaves."""
            if "split_feature" not in node:
                values[tree, first] = node["leaf_value"]
                return first + 1
            middle = read(tree, node["left_child"], first)
            end = read(tree, node["right_child"], middle)
            below, feature = node["threshold"], node["split_feature"]
            if feature == num_features:
                below, missing_left = frozenset(map(int, below.split("||"))), False
            else:  # without missing values in the fit, LightGBM takes 0 for one
                below = float(below)
                missing_left = node["default_left"] if node["missing_type"] == "NaN" else below >= 0
            splits.append(TreeSplit(tree, feature, below, missing_left, (first, middle, end)))
            return end

        counts = [read(number, tree["tree_structure"], 0) for number, tree in enumerate(trees)]
        return cls(tuple(splits), values, np.array(counts, dtype=np.int64), num_features, num_categories)

    @cached_property
    def thresholds(self) -> list[Floats]:
        """For each numeric feature, the ascending distinct thresholds."""
        found: list[set[float]] = [set() for _ in range(self.num_features)]
        for split in self.splits:
            if isinstance(split.below, float):
                found[split.feature].add(split.below)
        return [np.array(sorted(thresholds)) for thresholds in found]

    @cached_property
    def masks(self) -> dict[int, Leaves]:
        """Feature -> the leaves that a row with each code may reach in each tree, as bits (codes, w): see `packed`.

        The code of a number is the count of the feature's thresholds below it; that of a category is the category. The
        last code is that of a value that is not known.
        """
        tables = dict[int, Masks]()
        for split in self.splits:
            if isinstance(split.below, float):
                thresholds = self.thresholds[split.feature]
                left = np.arange(len(thresholds) + 2) <= np.searchsorted(thresholds, split.below)
            else:
                left = np.isin(np.arange(self.num_categories + 1), list(split.below))
            left[-1] = split.missing_left
            table = tables.setdefault(split.feature, np.full((len(left), len(self.counts)), 2**32 - 1, dtype=np.uint32))
            first, middle, end = split.leaves
            lost = np.where(left, (1 << end) - (1 << middle), (1 << middle) - (1 << first)).astype(np.uint32)
            table[:, split.tree] &= ~lost
        return {feature: self.packed(table) for feature, table in tables.items()}

    def packed(self, masks: Masks) -> Leaves:
        """Return masks (..., trees) with as few bits as the leaves need, filled up to whole lines of the cache."""
        kind = np.uint16 if self.counts.max(initial=0) <= 16 else np.uint32
        rest = -masks.shape[-1] % (LINE // np.dtype(kind).itemsize)
        return np.pad(masks.astype(kind), [*[(0, 0)] * (masks.ndim - 1), (0, rest)])

    def codes(self, feature: int, values: npt.NDArray[np.float32]) -> Codes:
        """Return the codes of values of a numeric feature. LightGBM finds at most 254 thresholds of a feature."""
        thresholds = self.thresholds[feature]
        with np.errstate(over="ignore"):  # LightGBM writes 1e300 for infinity
            rounded = thresholds.astype(np.float32)
        # a float32 is above a number if it is above the number rounded down
        down = np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
        codes = np.empty(values.shape, dtype=np.uint8)
        fill_codes(np.ascontiguousarray(values).ravel(), down, codes.ravel())
        return codes

    def bounds(self, grid: Grid, category: int) -> tuple[Floats, Floats]:
        """Return bounds (n, m) of the sum for the pairs of a tile that are not special.

        grid      the evidence, whose features are those of the trees
        category  of the predicate; -1: not known

        If a feature lies between two numbers, the leaves remain that some number between them reaches. The bounds are
        the sums of the lowest and of the highest leaf of each tree that remain. An unusual feature depends on one side
        alone, but for the pairs apart.
        """
        shape, between, exact, unusual = grid.tile.shape, list[_Column](), list[_Column](), list[_Column]()
        every = self.packed(((1 << self.counts) - 1).astype(np.uint32))
        sides = [np.tile(every, (2, size, 1)) for size in shape]  # leaves of any pair, of one without unusual features
        for feature, masks in self.masks.items():
            if feature == self.num_features:
                sides[0] &= masks[category]
                continue
            column = grid.column(feature)
            table = column.column
            if table.low is not table.high or 1 not in table.low.shape:
                (exact if table.low is table.high else between).append((feature, column))
                continue
            kept, usual = masks[self.codes(feature, table.low)], int(len(column.apart) > 0)
            unusual += [(feature, column)] * usual
            if kept.shape[1] == 1:
                sides[0][usual:] &= kept[:, 0] if table.rows is None else kept[table.rows, 0]
            else:
                sides[1][usual:] &= kept[0] if table.columns is None else kept[0, table.columns]
        plain, low, high = np.ones(shape, dtype=bool), np.empty(shape), np.empty(shape)
        for _, column in unusual:
            plain.ravel()[column.apart] = False
        pairs = [*between, *exact, *unusual]
        fill_bounds(
            plain,
            sides[0],
            sides[1],
            self._codes_of_pairs(pairs, shape),
            self._codes_of_pairs(between, shape, highest=True),
            np.cumsum([0, *(len(self.masks[feature]) for feature, _ in pairs)]),
            len(between) + len(exact),
            np.concatenate([every[None][:0], *(self.masks[feature] for feature, _ in pairs)]),
            self.values,
            low,
            high,
        )
        return low, high

    def _codes_of_pairs(self, columns: list[_Column], shape: tuple[int, int], highest: bool = False) -> Codes:
        """Return the lowest or the highest codes of features: (c, n, m)."""
        codes = np.empty((len(columns), *shape), dtype=np.uint8)
        for filled, (feature, column) in zip(codes, columns, strict=True):
            table = column.column
            filled[:] = table.of_pairs(self.codes(feature, table.high if highest else table.low))
            filled.ravel()[column.apart] = self.codes(feature, column.values)
        return codes
