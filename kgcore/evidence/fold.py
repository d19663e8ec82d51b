"""The fold of a triple, which says by which of several combiners it is judged."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Tiled
from kgcore.registries import EVIDENCE

FOLDS = 5


@EVIDENCE.register("fold")
@dataclass(frozen=True)
class Fold(Feature):
    """fold: a number from 0 to FOLDS - 1 that depends on the triple alone: see `fold_of`.

    It is no evidence: kgcore/combiners/joined.py chooses by it a combiner that has not seen the triple. Cost: a hash.
    """

    names = ("fold",)

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls()

    def values(self, triples: Triples) -> Floats:
        return fold_of(triples)[:, None].astype(np.float64)

    def tile(self, tile: Tile) -> Tiled:
        every = fold_of(tile.at(np.ones(tile.shape, dtype=bool)))
        return Tiled((PairColumn.of(every.reshape(tile.shape).astype(np.float64)),))


def fold_of(triples: Triples) -> Ints:
    """Return the fold (n,) of triples (n, 3), by a hash of their numbers.

    A triple and the one with exchanged entities have the same fold: in many graphs one of them says whether the other
    is true.
    """
    low, high = (np.sort(triples[:, [0, 2]], axis=1).astype(np.uint64)).T
    mixed = low * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= triples[:, 1].astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= high * np.uint64(0x165667B19E3779F9)
    for shift, factor in ((31, 0xBF58476D1CE4E5B9), (29, 0x94D049BB133111EB)):  # the finaliser of SplitMix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    folds: Ints = ((mixed ^ (mixed >> np.uint64(32))) % np.uint64(FOLDS)).astype(np.int64)
    return folds
