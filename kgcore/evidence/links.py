"""The training facts as links between entities, in both directions, for walks from entity to entity."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.evidence.lookup import KeyTable, expanded, ones_at
from kgcore.evidence.tile import Tile, meeting

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Links:
    """The links of every entity. A fact (s, p, o) links s to o by the kind p, and o to s by the kind p + R.

    Facts with s = o give no link.

    num_entities, num_predicates
                 E and R
    starts       (E + 1,) where the links of each entity start in `others` and `kinds`
    others       (2m,) the entity at the other end. The links of an entity are in ascending order of the number of
                 links of the other entity, so that a walk with a limit leaves out the hubs
    kinds        (2m,) in 0, ..., 2R - 1
    pairs        the distinct keys a E + b of linked pairs (a, b)
    pair_starts  (N + 1,) where the links of each pair start in `pair_kinds`
    pair_kinds   (2m,)
    """

    num_entities: int
    num_predicates: int
    starts: Ints
    others: Ints
    kinds: Ints
    pairs: KeyTable
    pair_starts: Ints
    pair_kinds: Ints

    @classmethod
    def of(cls, facts: Triples, num_entities: int, num_predicates: int) -> Self:
        """Build the links of distinct facts (n, 3)."""
        facts = facts[facts[:, 0] != facts[:, 2]]
        ends = np.concatenate([facts[:, 0], facts[:, 2]])
        others = np.concatenate([facts[:, 2], facts[:, 0]])
        kinds = np.concatenate([facts[:, 1], facts[:, 1] + num_predicates])
        degrees = np.bincount(ends, minlength=num_entities)
        order = np.lexsort((kinds, others, degrees[others], ends))
        pair_order = np.lexsort((kinds, others, ends))
        keys, first = np.unique((ends * num_entities + others)[pair_order], return_index=True)
        return cls(
            num_entities,
            num_predicates,
            np.concatenate([[0], np.cumsum(degrees)]),
            others[order],
            kinds[order],
            KeyTable.of(keys),
            np.append(first, len(kinds)),
            kinds[pair_order],
        )

    @property
    def degrees(self) -> Ints:
        """The number (E,) of links of each entity."""
        return np.diff(self.starts)

    def inverse(self, kinds: Ints) -> Ints:
        """Return the kinds in the other direction."""
        return (kinds + self.num_predicates) % (2 * self.num_predicates)

    def leaving(self, entities: Ints, most: int, apart_from: Ints) -> tuple[Ints, Ints, Ints]:
        """Follow at most `most` links of each entity (n,) that do not lead to the entity `apart_from` (n,).

        Return row, other entity and kind of each; rows ascend. A link to `apart_from` does not change the result.
        """
        direct = self.number(entities, apart_from)
        rows, places = expanded(self.starts[entities], np.minimum(self.degrees[entities], most + direct))
        if direct.any():
            away = self.others[places] != apart_from[rows]
            rows, places = rows[away], places[away]
            rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(entities)))[rows]
            rows, places = rows[rank < most], places[rank < most]
        return rows, self.others[places], self.kinds[places]

    def number(self, ends: Ints, others: Ints) -> Ints:
        """Return the number (n,) of links of each of n pairs."""
        result = np.zeros(len(ends), dtype=np.int64)
        rows, places = self.pairs.find(ends * self.num_entities + others)
        result[rows] = np.diff(self.pair_starts)[places]
        return result

    def between(self, ends: Ints, others: Ints) -> tuple[Ints, Ints]:
        """Find all links of n pairs. Return row and kind of each; rows ascend."""
        rows, places = self.pairs.find(ends * self.num_entities + others)
        inner, positions = expanded(self.pair_starts[places], np.diff(self.pair_starts)[places])
        return rows[inner], self.pair_kinds[positions]

    @cached_property
    def matrix(self) -> "csr_array":
        """The number of links between any two entities (E, E)."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.others), dtype=np.float32)
        return csr_array((ones, self.others, self.starts), shape=(self.num_entities,) * 2)

    def first(self, entities: Ints, most: int) -> "csr_array":
        """Return where the first `most` links of entities (n,) lead: (n, E)."""
        rows, places = expanded(self.starts[entities], np.minimum(self.degrees[entities], most))
        return ones_at(rows, self.others[places], (len(entities), self.num_entities))

    def linked(self, tile: Tile) -> Bools:
        """Return which pairs of a tile (n, m) have a link."""
        linked = np.zeros(tile.shape, dtype=bool)
        rows, places = expanded(self.starts[tile.subjects], self.degrees[tile.subjects])
        tile.mark(linked, rows, self.others[places])
        return linked

    def near(self, tile: Tile) -> Bools:
        """Return which pairs of a tile (n, m) have a link or a common neighbour."""
        return self.linked(tile) | meeting(self.matrix[tile.subjects], self.matrix[tile.objects])
