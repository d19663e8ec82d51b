"""What the training facts say of each entity: degrees, and how well it fits the place that the triple gives it."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.evidence.base import Feature, Source, Tile, Tiled
from kgcore.evidence.lookup import Counts, expanded, row_maxima, row_sums
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE

TYPE_SMOOTHING = 0.5
ROWS_AT_ONCE = 2**13  # triples of a block, because an entity may have as many places as the graph


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


@EVIDENCE.register("types")
@dataclass(frozen=True)
class Types(Feature):
    """Agreement of an entity with the domain or the range of the predicate.

    A place is a predicate and a side; R predicates have 2R places. An entity has the places that its training facts
    give it. A triple (s, p, o) gives s the place c = (p, subject), and o the place (p, object). For an entity e with
    the places F by other predicates, E entities, n_f of them with place f, and n_fc with both f and c:

        subject_type, object_type              sum over f in F of log [ (n_fc + a) / (n_c + 2 a) ]
                                                                - log [ (n_f - n_fc + a) / (E - n_c + 2 a) ]
        subject_type_share, object_type_share  max over f in F of n_fc / (n_f + 2 a); 0 if F is empty

    The first is the log-odds of naive Bayes without the prior; a = TYPE_SMOOTHING. All counts leave the triple out.
    Cost: as many terms as both entities have places.

    Misleading where negatives were drawn with the right types, or with wrong ones only: then types decide nothing, or
    everything. An entity with few facts has few places, and log-odds near 0.

    facts      an index of the training facts
    starts     (E + 1,) where the places of each entity start in `places`
    places     predicate p as subject: p; as object: p + R. Ascending for each entity
    counts     how many facts give each entity the place: as `places`
    sizes      (2R,) n_f
    together   n_fc for the pairs of places that occur together; key f 2R + c
    """

    facts: TripleIndex
    starts: Ints
    places: Ints
    counts: Ints
    sizes: Ints
    together: Counts

    names = ("subject_type", "subject_type_share", "object_type", "object_type_share")

    @classmethod
    def of(cls, source: Source) -> Self:
        s, p, o = source.triples.T
        entities, predicates = source.sizes
        width = 2 * predicates
        keys, counts = np.unique(np.concatenate([s * width + p, o * width + p + predicates]), return_counts=True)
        ends, places = np.divmod(keys, width)
        has = csr_array((np.ones(len(ends)), (ends, places)), shape=(entities, width))
        starts = np.searchsorted(ends, np.arange(entities + 1))
        sizes = np.bincount(places, minlength=width)
        return cls(source.facts, starts, places, counts, sizes, Counts.of_matrix(has.T @ has))

    def values(self, triples: Triples) -> Floats:
        blocks = np.split(triples, range(ROWS_AT_ONCE, len(triples), ROWS_AT_ONCE))
        return np.concatenate([self._values(block) for block in blocks])

    def tile(self, tile: Tile) -> Tiled:
        return Tiled(tile.sided(self, "subject_"))

    def _values(self, triples: Triples) -> Floats:
        s, p, o = triples.T
        own, predicates = self.facts.contains(triples), self.facts.num_predicates
        return np.stack([*self._agreement(s, p, own), *self._agreement(o, p + predicates, own)], axis=1)

    def _agreement(self, e: Ints, c: Ints, own: Bools) -> tuple[Floats, Floats]:
        """Return the log-odds and the largest share (n,) of entities e for the places c, without the `own` triples."""
        width = len(self.sizes)
        rows, entries = expanded(self.starts[e], np.diff(self.starts)[e])
        places, counts = self.places[entries], self.counts[entries]
        leaves = row_sums(rows, ((places == c[rows]) & (counts == 1)).astype(float), len(e)).astype(bool) & own
        kept = (places - c[rows]) % self.facts.num_predicates != 0
        rows, places = rows[kept], places[kept]
        gone = leaves[rows]
        both = self.together(places * width + c[rows]) - gone
        size = self.sizes[places]
        inside = np.log(both + TYPE_SMOOTHING) - np.log(self.sizes[c[rows]] - gone + 2 * TYPE_SMOOTHING)
        others = self.facts.num_entities - self.sizes[c[rows]] + gone
        outside = np.log(size - both + TYPE_SMOOTHING) - np.log(others + 2 * TYPE_SMOOTHING)
        log_odds = row_sums(rows, inside - outside, len(e))
        return log_odds, row_maxima(rows, both / (size + 2 * TYPE_SMOOTHING), len(e))
