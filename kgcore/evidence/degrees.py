"""Degrees of both entities, and how functional the predicate is."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.lookup import Counts
from kgcore.evidence.tile import Tile, Tiled
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE


@EVIDENCE.register("degrees")
@dataclass(frozen=True)
class Degrees(Feature):
    """How many training facts speak about the entities and the predicate. For a triple (s, p, o) that is left out:

        subject_out, subject_in      log(1 + facts with s as subject), log(1 + facts with s as object)
        object_out, object_in        the same for o
        subject_objects              log(1 + objects of s and p)
        object_subjects              log(1 + subjects of p and o)
        subject_as_object            log(1 + facts with p and object s)
        object_as_subject            log(1 + facts with p and subject o)
        subject_kinds, object_kinds  log(1 + distinct pairs of predicate and side of s; of o)
        predicate_facts              log(1 + facts of p)
        functionality                distinct subjects of p / facts of p; 1: a subject has one object. NaN: no facts
        inverse_functionality        distinct objects of p / facts of p

    The cardinality of p (1-1, 1-N, N-1, N-N) is the last two with thresholds. Cost: eight look-ups a triple.

    Misleading where negatives were drawn by degree: entities of uniform corruptions are rarer than those of facts, and
    both labels of a benchmark may differ in degree only because of how its negatives were made.

    facts          an index of the training facts
    out, into      (E,) facts of each entity as subject; as object
    with_subject   (s, p) -> number of facts; key s R + p
    with_object    (p, o) -> number of facts; key o R + p
    kinds          (E,) distinct pairs of predicate and side
    totals         (3, R) facts, distinct subjects and distinct objects of each predicate
    """

    facts: TripleIndex
    out: Ints
    into: Ints
    with_subject: Counts
    with_object: Counts
    kinds: Ints
    totals: Ints

    sees_unseen = True
    names = (
        *("subject_out", "subject_in", "object_out", "object_in", "subject_objects", "object_subjects"),
        *("subject_as_object", "object_as_subject", "subject_kinds", "object_kinds"),
        *("predicate_facts", "functionality", "inverse_functionality"),
    )

    @classmethod
    def of(cls, source: Source) -> Self:
        s, p, o = source.triples.T
        entities, predicates = source.sizes
        subjects, objects = Counts.of(s * predicates + p), Counts.of(o * predicates + p)
        ends = [table.table.keys // predicates for table in (subjects, objects)]
        sides = [np.bincount(table.table.keys % predicates, minlength=predicates) for table in (subjects, objects)]
        return cls(
            source.facts,
            np.bincount(s, minlength=entities),
            np.bincount(o, minlength=entities),
            subjects,
            objects,
            np.bincount(np.concatenate(ends), minlength=entities),
            np.stack([np.bincount(p, minlength=predicates), *sides]),
        )

    def needs(self, side: int) -> tuple[str, ...]:
        return tuple(name for name in self.names if name.startswith(("subject_", "object_")[side]))

    def values(self, triples: Triples) -> Floats:
        unseen = triples[:, [0, 2]] >= self.facts.num_entities
        if not unseen.any():
            return self._values(triples, self.facts.contains(triples))
        known = triples.copy()
        known[:, [0, 2]] = np.where(unseen, 0, known[:, [0, 2]])
        values = self._values(known, self.facts.contains(known) & ~unseen.any(axis=1))
        for side in (0, 1):
            needing = np.array([name in self.needs(side) for name in self.names])
            values[unseen[:, side, None] & needing] = np.nan
        return values

    def tile(self, tile: Tile) -> Tiled:
        return Tiled(tile.sided(self, "subject_"))

    def _values(self, triples: Triples, own: Bools) -> Floats:
        """Return the features of triples of known entities. own: (n,) whether the triple is a training fact."""
        (s, p, o), predicates = triples.T, self.facts.num_predicates
        loop = s == o
        objects = self.with_subject(s * predicates + p) - own
        subjects = self.with_object(o * predicates + p) - own
        back, ahead = self.with_object(s * predicates + p), self.with_subject(o * predicates + p)
        back, ahead = back - (own & loop), ahead - (own & loop)
        only = own & (objects == 0), own & (subjects == 0)
        left = [self.totals[0, p] - own, self.totals[1, p] - only[0], self.totals[2, p] - only[1]]
        counts = [self.out[s] - own, self.into[s] - (own & loop), self.out[o] - (own & loop), self.into[o] - own]
        counts += [objects, subjects, back, ahead, *self._kinds(s, o, only, loop), left[0]]
        with np.errstate(invalid="ignore"):
            shares = [left[1] / left[0], left[2] / left[0]]
        return np.stack([*(np.log1p(count) for count in counts), *shares], axis=1)

    def _kinds(self, s: Ints, o: Ints, only: tuple[Bools, Bools], loop: Bools) -> tuple[Ints, Ints]:
        """Return the kinds of subjects and of objects. `only`: the triple is the only fact that gives this kind."""
        as_subject, as_object = only
        return self.kinds[s] - as_subject - (as_object & loop), self.kinds[o] - as_object - (as_subject & loop)
