"""Bounds of a sum of decision trees for all pairs of a tile: what does not depend on the pair is computed once.

The plain form is `Trees.sums`. A pair has bounds that are equal, to the last bit, if its features are known exactly.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats
from kgcore.combiners.trees import MOST_LEAVES, Masks, Trees
from kgcore.evidence.grid import Grid, TileColumn
from kgcore.loops.forests import Codes, fill_bounds, fill_codes


def bounds_of(trees: Trees, grid: Grid, category: int) -> tuple[Floats, Floats]:
    """Return bounds (n, m) of `Trees.sums` for the pairs of a tile that are not special.

    grid      the evidence, whose features are those of the trees
    category  of the predicate; -1: not known

    Each split excludes leaves, as in `Trees.leaves`. If a feature lies between two numbers, leaves that some number
    between them reaches are left, and the bounds are the smallest and the largest value of the leaves that are left.
    """
    shape = grid.tile.shape
    left, pairs = _Sides.of(trees, shape), _Pairs(trees, shape)
    for feature, masks in trees.masks.items():
        if feature == trees.num_features:
            left.exclude(masks[category][None, None], usual=False)
            continue
        column = grid.column(feature)
        table = column.column
        if table.low is table.high and 1 in table.low.shape:  # a feature of one side
            kept = table.of_pairs(masks[codes_of(table.low, trees.thresholds[feature])])
            left.exclude(kept, usual=len(column.apart) > 0)
            if len(column.apart):
                pairs.unusual.append((feature, column))
        else:
            (pairs.exact if table.low is table.high else pairs.between).append((feature, column))
    values = np.zeros((trees.shape.trees, MOST_LEAVES))
    values[trees.shape.leaf_trees, trees.shape.leaf_numbers] = trees.values[trees.shape.leaf_nodes]
    low, high = np.empty(shape), np.empty(shape)
    fill_bounds(pairs.plain, left.subjects, left.objects, *pairs.codes(), *pairs.masks(), values, trees.start, low, high)
    return low, high


def codes_of(values: npt.NDArray[np.float32], thresholds: Floats) -> Codes:
    """Return the codes of one feature, as `Trees.codes` does, for values of any shape. A feature has at most 254 ends."""
    codes = np.empty(values.shape, dtype=np.uint8)
    fill_codes(np.ascontiguousarray(values).ravel(), thresholds, codes.ravel())
    return codes


@dataclass
class _Sides:
    """The leaves that the features of one side leave.

    subjects  (2, n, trees) of any pair, and of a pair without unusual features
    objects   (2, m, trees)
    """

    subjects: Masks
    objects: Masks

    @classmethod
    def of(cls, trees: Trees, shape: tuple[int, int]) -> "_Sides":
        every = ((1 << trees.shape.counts) - 1).astype(np.uint32)
        return cls(*(np.tile(every, (2, size, 1)) for size in shape))

    def exclude(self, kept: Masks, usual: bool) -> None:
        """Exclude leaves. kept: (n, 1, trees) or (1, m, trees). usual: only of pairs without unusual features."""
        if kept.shape[1] == 1:
            self.subjects[int(usual) :] &= kept[:, 0]
        else:
            self.objects[int(usual) :] &= kept[0]


@dataclass
class _Pairs:
    """The features that differ from pair to pair: those between two numbers, exact ones, and unusual ones.

    An unusual feature depends on one side alone, but for the pairs apart.
    """

    trees: Trees
    shape: tuple[int, int]
    between: list[tuple[int, TileColumn]] = field(default_factory=list)
    exact: list[tuple[int, TileColumn]] = field(default_factory=list)
    unusual: list[tuple[int, TileColumn]] = field(default_factory=list)

    @property
    def plain(self) -> Bools:
        """Whether a pair (n, m) has no unusual feature."""
        plain = np.ones(self.shape, dtype=bool)
        for _, column in self.unusual:
            plain.ravel()[column.apart] = False
        return plain

    def codes(self) -> tuple[Codes, Codes]:
        """Return the smallest codes of all features (c, n, m), and the largest codes of the first ones."""
        every = [*self.between, *self.exact, *self.unusual]
        low = np.empty((len(every), *self.shape), dtype=np.uint8)
        high = np.empty((len(self.between), *self.shape), dtype=np.uint8)
        for codes, columns in ((low, every), (high, self.between)):
            for own, (feature, column) in zip(codes, columns, strict=True):
                table, thresholds = column.column, self.trees.thresholds[feature]
                own[:] = table.of_pairs(codes_of(table.low if codes is low else table.high, thresholds))
                own.ravel()[column.apart] = codes_of(column.values, thresholds)
        return low, high

    def masks(self) -> tuple[npt.NDArray[np.int64], int, Masks]:
        """Return where the masks of each feature start, the number of features of plain pairs, and all masks."""
        every = [*self.between, *self.exact, *self.unusual]
        masks = [self.trees.masks[feature] for feature, _ in every]
        starts = np.cumsum([0, *(len(mask) for mask in masks)])[:-1]
        nothing = np.zeros((0, self.trees.shape.trees), dtype=np.uint32)
        return starts, len(every) - len(self.unusual), np.concatenate([nothing, *masks])
