"""The evidence of triples: all features of all groups, of a table, of a tile, and of entities that training lacks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.config.calibrate import OF_PAIRS, OTHER_SCORES
from kgcore.errors import InputError
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Values
from kgcore.evidence.lookup import words_of
from kgcore.registries import EVIDENCE
from kgcore.scores.table import LABELLED, Evidence, ScoreTable
from kgcore.workers import in_order

ROWS_AT_ONCE, FEWEST_AT_ONCE = 2**14, 2**10  # triples of the blocks of all threads, and of a block


@dataclass(frozen=True)
class Features:
    """Groups of features that are ready for triples.

    groups    registered name of a group -> the group
    entities  number E of the entities that training has. A triple may also have entities that training lacks: ids from
              E on, whose names `extended` has got
    """

    groups: dict[str, Feature]
    entities: int

    @classmethod
    def of(cls, source: Source, names: Sequence[str]) -> Self:
        """Prepare the groups with these registered names. Raises InputError for an unknown name."""
        return cls({name: EVIDENCE.get(name).of(source) for name in names}, len(source.graph.entities))

    def extended(self, names: Sequence[str]) -> "Features":
        """Return the same groups for further entities, which training lacks: ids E, E + 1, ... for their names."""
        return replace(self, groups={name: group.extended(names) for name, group in self.groups.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all features, group by group."""
        return tuple(name for group in self.groups.values() for name in group.names)

    def hidden(self, evidence: Evidence, side: int) -> Evidence:
        """Return evidence of these features as if training lacked all subjects, side 0, or all objects, side 1.

        The features that need the facts of the hidden entity are NaN: see `Feature.needs`. So a combiner for entities
        that training lacks learns from the many labelled triples of known entities.
        """
        lost = {name for group in self.groups.values() for name in group.needs(side)}
        values = evidence.values.copy()
        values[:, [name in lost for name in evidence.names]] = np.nan
        return Evidence(evidence.names, values)

    def evidence(self, triples: Triples) -> Evidence:
        """Return the evidence of triples (n, 3).

        As many threads as PyTorch has compute blocks of triples: the memory beside the result is that of ROWS_AT_ONCE.
        """
        import torch  # takes more than a second to load

        values = np.empty((len(triples), len(self.names)), dtype=np.float32)
        threads = torch.get_num_threads()
        size = max(ROWS_AT_ONCE // threads, FEWEST_AT_ONCE)
        starts = range(0, len(triples), size)
        rows = (triples[start : start + size] for start in starts)
        alone = threads == 1 or len(starts) == 1
        blocks = map(self._block, rows) if alone else in_order(self._block, rows, threads)
        for start, block in zip(starts, blocks, strict=True):
            values[start : start + len(block)] = block
        return Evidence(self.names, values)

    def _block(self, triples: Triples) -> Floats:
        seen: Bools = np.asarray((triples[:, [0, 2]] < self.entities).all(axis=1))
        return np.concatenate([_values(group, triples, seen) for group in self.groups.values()], axis=1)


def _values(group: Feature, triples: Triples, seen: Bools) -> Floats:
    """Return the features (n, d) of a group; NaN for triples with unseen entities, if the group cannot see these."""
    if group.sees_unseen or seen.all():
        return group.values(triples)
    values = np.full((len(triples), len(group.names)), np.nan)
    values[seen] = group.values(triples[seen])
    return values


def rows_with_evidence(
    table: ScoreTable, groups: Sequence[str], others: bool = False, candidates: bool = False
) -> tuple[Bools, tuple[str, ...]]:
    """Return a mask (n,) of the rows of a score table that need evidence, and the groups of evidence that they get.

    These are the labelled rows of valid, and the rows that measure test. Without candidates and with few labelled
    negatives or none, these are also the corruptions of valid, and only groups about both entities are used.

    groups      registered names
    others      whether there are further models, whose scores are evidence
    candidates  whether calibrators are fitted to candidates

    Raises InputError if no group is left.
    """
    rows = table.rows("valid", LABELLED) | table.measured("test")
    used = (*groups, *([OTHER_SCORES] if others else []))
    if not (table.combines_labels or table.soft("valid") or candidates):
        rows |= table.corruptions()
        used = tuple(name for name in used if name in OF_PAIRS)
    if not used:
        few = "with few labels and no" if table.labelled_negatives("valid") else "without labels and"
        raise InputError(
            f"evidence is {', '.join(groups)}: {few} candidates, name at least one of {', '.join(OF_PAIRS)}"
        )
    return rows, used


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


@dataclass(frozen=True)
class NamedEvidence:
    """The evidence of triples with unseen entities. The first use takes longer: it makes tables that are kept.

    Only groups with `sees_unseen` are prepared. The features of all other groups are NaN for these triples, so that the
    result is that of `Features.evidence`, to the bit.

    source    graph and model
    groups    registered names of the groups
    features  names (d) of their features, in the order of the groups
    """

    source: Source
    groups: tuple[str, ...]
    features: tuple[str, ...]

    def of(self, triples: Triples, names: Sequence[str]) -> Evidence:
        """Return the evidence of triples (n, 3), each with an entity that training lacks.

        names  names of these entities: names[i] has the id E + i, for E entities of train
        """
        found = self._tables.extended(names).evidence(triples)
        values = np.full((len(triples), len(self.features)), np.nan, dtype=np.float32)
        places = {name: place for place, name in enumerate(self.features)}
        values[:, [places[name] for name in found.names]] = found.values
        return Evidence(self.features, values)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of a name: see `words_of`."""
        return words_of(name)

    @cached_property
    def shared_words(self) -> frozenset[str]:
        """The words that the names of at least two entities of training have."""
        counts = Counter(word for name in self.source.graph.entities for word in set(words_of(name)))
        return frozenset(word for word, count in counts.items() if count > 1)

    @cached_property
    def _tables(self) -> Features:
        return Features.of(self.source, [name for name in self.groups if EVIDENCE.get(name).sees_unseen])
