"""The evidence of a table of triples: all features of all groups, computed in blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.errors import MismatchError
from kgcore.evidence.base import Feature, Source
from kgcore.registries import EVIDENCE

ROWS_AT_ONCE = 2**14  # triples of a block


@dataclass(frozen=True)
class Evidence:
    """The features of n triples.

    names   (d) names of the features
    values  (n, d) float32; NaN: not known
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "Evidence":
        """Return the rows that a mask or positions choose, in this order."""
        return Evidence(self.names, self.values[rows])


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
        """Return the evidence of triples (n, 3). Memory beside the result: that of ROWS_AT_ONCE triples."""
        values = np.empty((len(triples), len(self.names)), dtype=np.float32)
        for start in range(0, len(triples), ROWS_AT_ONCE):
            block = triples[start : start + ROWS_AT_ONCE]
            seen: Bools = np.asarray((block[:, [0, 2]] < self.entities).all(axis=1))
            parts = [_values(group, block, seen) for group in self.groups.values()]
            values[start : start + len(block)] = np.concatenate(parts, axis=1)
        return Evidence(self.names, values)


@dataclass(frozen=True)
class TableEvidence:
    """The evidence of some rows of a score table.

    rows      (m,) ascending positions in the score table
    evidence  of these rows
    groups    registered names of its groups
    others    fingerprints of the further models whose scores are among it
    """

    rows: Ints
    evidence: Evidence
    groups: tuple[str, ...]
    others: tuple[str, ...] = ()

    def at(self, mask: Bools) -> Evidence:
        """Return the evidence of the rows of the score table that a mask chooses.

        Raises MismatchError if a row has no evidence.
        """
        wanted = np.flatnonzero(mask)
        places = np.searchsorted(self.rows, wanted)
        found = (places < len(self.rows)) & (np.append(self.rows, -1)[places.clip(max=len(self.rows))] == wanted)
        if not found.all():
            raise MismatchError(
                f"{int((~found).sum()):,} rows of the score table have no evidence: run the stage evidence again"
            )
        return self.evidence.rows(places)


def _values(group: Feature, triples: Triples, seen: Bools) -> Floats:
    """Return the features (n, d) of a group; NaN for triples with unseen entities, if the group cannot see these."""
    if group.sees_unseen or seen.all():
        return group.values(triples)
    values = np.full((len(triples), len(group.names)), np.nan)
    values[seen] = group.values(triples[seen])
    return values
