"""Whether an entity's name is like the names of the subjects, or objects, of a predicate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Triples, sorted_distinct
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.lookup import Counts, KeyTable, mean_and_highest
from kgcore.evidence.tile import Tile, Tiled
from kgcore.evidence.words import Tokens, parts_of
from kgcore.registries import EVIDENCE

SMOOTHING = 1.0  # entities with the average share of the role that each part of a name has beside its own


@EVIDENCE.register("name_roles")
@dataclass(frozen=True)
class NameRoles(Feature):
    """role_subject_mean, role_subject_highest: log lift of the parts of the subject's name for the role (p, subject).

    A role is a predicate and a side. Of the E entities, n(role) have the role in a training fact: the share q is
    (n(role) + 1/2) / (E + 1). n(v) entities have the part v in their name (kgcore/evidence/words.py: parts_of);
    n(v, role) of them have the role.

        log lift of v = log((n(v, role) + a q) / (n(v) + a)) - log q, a = SMOOTHING

    The entity itself is left out of all counts, with all of its facts. So a training fact is never evidence
    for itself, and an entity that training lacks is treated as any other. `mean` and `highest` are over the parts that
    at least two entities have. role_object_*: the same for the object and the role (p, object).

    Cost: one look-up for each part of both names. Misleading where the name of an entity says how it came into the
    graph; the labels of a benchmark may depend on that.
    """

    parts: Tokens
    entities: int
    members: KeyTable
    roles: Ints
    counts: Counts
    totals: Ints

    sees_unseen = True
    names = tuple(f"role_{side}_{what}" for side in ("subject", "object") for what in ("mean", "highest"))

    @classmethod
    def of(cls, source: Source) -> Self:
        graph = source.graph
        parts = source.parts
        facts, entities, slots = graph.train.positives, len(graph.entities), 2 * len(graph.predicates)
        members = sorted_distinct(
            np.concatenate([facts[:, 0] * slots + 2 * facts[:, 1], facts[:, 2] * slots + 2 * facts[:, 1] + 1])
        )
        row, part = parts.expand(members // slots)
        return cls(
            parts,
            entities,
            KeyTable.of(members),
            np.bincount(members % slots, minlength=slots),
            Counts.of(part * slots + members[row] % slots),
            np.bincount(parts.numbers, minlength=max(parts.size, 1)),
        )

    def extended(self, names: Sequence[str]) -> Self:
        return replace(self, parts=self.parts.extended(parts_of(name) for name in names))

    def needs(self, side: int) -> tuple[str, ...]:
        return ()

    def values(self, triples: Triples) -> Floats:
        sides = [self._lift(triples[:, 2 * side], 2 * triples[:, 1] + side) for side in (0, 1)]
        return np.concatenate(sides, axis=1)

    def tile(self, tile: Tile) -> Tiled:
        return Tiled(tile.sided(self, "role_subject_"))

    def _lift(self, entities: Ints, roles: Ints) -> Floats:
        row, part = self.parts.expand(entities)
        slots = len(self.roles)
        has, known, role = np.zeros(len(entities), dtype=np.int64), entities < self.entities, roles[row]
        has[self.members.find(entities * slots + roles)[0]] = 1
        share = ((self.roles[roles] - has + 0.5) / (self.entities - known + 1))[row]
        with_role = self.counts(part * slots + role) - has[row]
        total = self.totals[part] - known[row]
        lift = np.log((with_role + SMOOTHING * share) / (total + SMOOTHING) / share)
        return mean_and_highest(row, lift, len(entities))
