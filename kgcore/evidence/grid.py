"""The evidence of a tile: all pairs of some subjects and objects of one predicate."""

from dataclasses import dataclass, field

import numpy as np

from kgcore.arrays import Ints
from kgcore.evidence.base import Feature
from kgcore.evidence.table import ROWS_AT_ONCE, Features
from kgcore.evidence.tile import PairColumn, Tile, Values


@dataclass(frozen=True)
class TileColumn:
    """One feature of the pairs of a tile.

    column  its bounds, but for the pairs apart
    apart   (k,) ascending positions i m + j of the pairs (i, j) apart
    values  (k,) their features
    """

    column: PairColumn
    apart: Ints
    values: Values


@dataclass(frozen=True)
class Grid:
    """The features of the pairs of a tile that are not special. A group is computed when a feature of it is wanted."""

    features: Features
    tile: Tile
    _groups: dict[str, tuple[TileColumn, ...]] = field(default_factory=dict)

    def column(self, number: int) -> TileColumn:
        """Return a feature by its position in `features.names`."""
        for name, group in self.features.groups.items():
            if number < len(group.names):
                if name not in self._groups:
                    self._groups[name] = self._of_group(group)
                return self._groups[name][number]
            number -= len(group.names)
        raise IndexError(number)

    def _of_group(self, group: Feature) -> tuple[TileColumn, ...]:
        tiled = group.tile(self.tile)
        if tiled.apart is None:
            nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
            return tuple(TileColumn(column, *nothing) for column in tiled.columns)
        pairs = tiled.apart & ~self.tile.special
        triples, apart = self.tile.at(pairs), np.flatnonzero(pairs)
        values = np.empty((len(group.names), len(triples)), dtype=np.float32)
        for start in range(0, len(triples), ROWS_AT_ONCE):
            values[:, start : start + ROWS_AT_ONCE] = group.values(triples[start : start + ROWS_AT_ONCE]).T
        return tuple(TileColumn(column, apart, own) for column, own in zip(tiled.columns, values, strict=True))
