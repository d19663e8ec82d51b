"""Bounds of a sum of decision trees for all pairs of a tile: what does not depend on the pair is computed once.

The plain form is `Trees.sums`. The bounds of a pair are equal, to the last bit, if its features are known exactly.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats
from kgcore.combiners.trees import MOST_LEAVES, Masks, Trees
from kgcore.evidence.grid import Grid, TileColumn
from kgcore.evidence.tile import ZERO, PairColumn
from kgcore.loops.forests import LINE, Codes, Leaves, fill_bounds, fill_codes


def bounds_of(trees: Trees, grid: Grid, category: int) -> tuple[Floats, Floats]:
    """Return bounds (n, m) of `Trees.sums` for the pairs of a tile that are not special.

    grid      the evidence, whose features are those of the trees
    category  of the predicate; -1: not known

    Each split excludes leaves, as in `Trees.leaves`. If a feature lies between two numbers, the leaves remain that some
    number between them reaches. The bounds are the sums of the lowest and of the highest leaf of each tree that remain.
    """
    sides, pairs = _Sides.of(trees, grid.tile.shape), _Pairs(trees, grid.tile.shape)
    for feature, masks in trees.masks.items():
        if feature == trees.num_features:
            sides.exclude(ZERO, packed(masks[category], trees)[None, None])
            continue
        column = grid.column(feature)
        table = column.column
        if table.low is table.high and 1 in table.low.shape:
            kept = packed(masks, trees)[codes_of(table.low, trees.thresholds[feature])]
            sides.exclude(table, kept, usual=len(column.apart) > 0)
            if len(column.apart):
                pairs.unusual.append((feature, column))
        else:
            (pairs.exact if table.low is table.high else pairs.between).append((feature, column))
    return _filled(trees, sides, pairs)


def codes_of(values: npt.NDArray[np.float32], thresholds: Floats) -> Codes:
    """Return the codes of values of a feature, as `Trees.codes` does. It has at most 254 thresholds: see `Bins`."""
    rounded = thresholds.astype(np.float32)  # a float32 is above a number if it is above the number rounded down
    down = np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    codes = np.empty(values.shape, dtype=np.uint8)
    fill_codes(np.ascontiguousarray(values).ravel(), down, codes.ravel())
    return codes


def packed(masks: Masks, trees: Trees) -> Leaves:
    """Return masks (..., trees) with as few bits as the leaves need, filled up to whole lines of the cache."""
    kind = np.uint16 if trees.shape.counts.max(initial=0) <= 16 else np.uint32
    whole = -masks.shape[-1] % (LINE // np.dtype(kind).itemsize)
    found: Leaves = np.pad(masks.astype(kind), [*[(0, 0)] * (masks.ndim - 1), (0, whole)])
    return found


@dataclass(frozen=True)
class _Sides:
    """The leaves that remain by the features of one side.

    subjects  (2, n, w) of any pair, and of a pair without unusual features; objects (2, m, w) likewise
    """

    subjects: Leaves
    objects: Leaves

    @classmethod
    def of(cls, trees: Trees, shape: tuple[int, int]) -> "_Sides":
        every = packed(((1 << trees.shape.counts) - 1).astype(np.uint32), trees)
        return cls(*(np.tile(every, (2, size, 1)) for size in shape))

    def exclude(self, table: PairColumn, kept: Leaves, usual: bool = False) -> None:
        """Exclude leaves by a feature of one side.

        kept   (a, 1, w) or (1, b, w) the leaves that remain by each value of its table
        usual  whether the feature says so only of pairs without unusual features
        """
        if kept.shape[1] == 1:
            self.subjects[int(usual) :] &= kept[:, 0] if table.rows is None else kept[table.rows, 0]
        else:
            self.objects[int(usual) :] &= kept[0] if table.columns is None else kept[0, table.columns]


@dataclass(frozen=True)
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
    def every(self) -> list[tuple[int, TileColumn]]:
        return [*self.between, *self.exact, *self.unusual]

    @property
    def plain(self) -> Bools:
        """Whether a pair (n, m) has no unusual feature."""
        plain = np.ones(self.shape, dtype=bool)
        for _, column in self.unusual:
            plain.ravel()[column.apart] = False
        return plain

    @property
    def masks(self) -> list[Leaves]:
        """The masks (codes, w) of each feature."""
        return [packed(self.trees.masks[feature], self.trees) for feature, _ in self.every]

    def codes(self, columns: list[tuple[int, TileColumn]], highest: bool = False) -> Codes:
        """Return the lowest or the highest codes of features: (c, n, m)."""
        codes = np.empty((len(columns), *self.shape), dtype=np.uint8)
        for filled, (feature, column) in zip(codes, columns, strict=True):
            table, thresholds = column.column, self.trees.thresholds[feature]
            filled[:] = table.of_pairs(codes_of(table.high if highest else table.low, thresholds))
            filled.ravel()[column.apart] = codes_of(column.values, thresholds)
        return codes


def _filled(trees: Trees, sides: _Sides, pairs: _Pairs) -> tuple[Floats, Floats]:
    values = np.zeros((trees.shape.trees, MOST_LEAVES))
    values[trees.shape.leaf_trees, trees.shape.leaf_numbers] = trees.values[trees.shape.leaf_nodes]
    low, high = np.empty(pairs.shape), np.empty(pairs.shape)
    fill_bounds(
        pairs.plain,
        sides.subjects,
        sides.objects,
        pairs.codes(pairs.every),
        pairs.codes(pairs.between, highest=True),
        np.cumsum([0, *(len(masks) for masks in pairs.masks)]),
        len(pairs.between) + len(pairs.exact),
        np.concatenate([sides.subjects[0, :0], *pairs.masks]),
        values,
        trees.start,
        low,
        high,
    )
    return low, high
