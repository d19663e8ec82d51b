"""Values of functional predicates that valid and test have, and training lacks."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Bools, Floats, Triples, sorted_distinct
from kgcore.data.graph import TripleIndex
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Tiled
from kgcore.evidence.lookup import Counts
from kgcore.registries import EVIDENCE

FUNCTIONAL = 0.9  # distinct subjects for each fact, from which on a predicate is functional


@EVIDENCE.register("held_out")
@dataclass(frozen=True)
class HeldOut(Feature):
    """Whether valid or test has the value of a functional predicate. A triple (s, p, o) is left out itself:

        subject_held_out    1 if p is functional, and valid or test has a fact of s and p; 0 if not
        object_held_out     1 if p is inverse functional, and valid or test has a fact of p and o; 0 if not

    p is functional if the graph has at least FUNCTIONAL distinct subjects for each of its facts: nearly every subject
    has one object. Other evidence is made from training facts. If the birthplace of s is in test, training has none,
    and without this group every other city would look like a missing fact. A validation fact itself has 0.

    Only the survey of a population uses this group: a validation fact stands for the missing facts there. Combiners may
    take a 1 as evidence against a triple alone. Other predicates have 0: an object of many facts has one held-out fact
    less beside a validation fact than beside a candidate, which would betray the validation facts. Cost: three look-ups
    a triple.

    Misleading where training has other values of a functional predicate than valid and test, as after a change in time.

    facts       an index of the held-out facts
    of_subject  keys s R + p of the held-out facts of functional predicates, and their numbers
    of_object   keys o R + p of the held-out facts of inverse functional predicates, and their numbers
    """

    facts: TripleIndex
    of_subject: Counts
    of_object: Counts

    names = ("subject_held_out", "object_held_out")

    @classmethod
    def of(cls, source: Source) -> Self:
        graph, predicates = source.graph, len(source.graph.predicates)
        of_splits = np.concatenate([graph.valid.positives, graph.test.positives])
        held_out = graph.index(of_splits[~source.facts.contains(of_splits)])
        every = np.concatenate([source.triples, held_out.triples])
        sizes, sides = np.bincount(every[:, 1], minlength=predicates), []
        for side in (0, 2):
            keys = sorted_distinct(every[:, side] * predicates + every[:, 1])
            functional = np.bincount(keys % predicates, minlength=predicates) >= FUNCTIONAL * sizes
            rows = held_out.triples[functional[held_out.triples[:, 1]]]
            sides.append(Counts.of(rows[:, side] * predicates + rows[:, 1]))
        return cls(held_out, *sides)

    def values(self, triples: Triples) -> Floats:
        (s, p, o), predicates = triples.T, self.facts.num_predicates
        counts = np.stack([self.of_subject(s * predicates + p), self.of_object(o * predicates + p)], axis=1)
        return (counts > self.facts.contains(triples)[:, None]).astype(np.float64)

    def tile(self, tile: Tile) -> Tiled:
        predicates = self.facts.num_predicates
        of_subjects, of_objects = (
            (counts(entities * predicates + tile.predicate) > 0).astype(np.float64)
            for counts, entities in ((self.of_subject, tile.subjects), (self.of_object, tile.objects))
        )
        apart: Bools = np.zeros(tile.shape, dtype=bool)
        tile.mark(apart, *self.facts.objects(tile.subjects, np.full(len(tile.subjects), tile.predicate)))
        return Tiled((PairColumn.of(of_subjects[:, None]), PairColumn.of(of_objects[None])), apart)
