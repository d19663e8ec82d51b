"""How well the other facts of an entity fit the place that the triple gives it."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.lookup import Counts, expanded, row_maxima, row_sums
from kgcore.evidence.tile import Tile, Tiled
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE

SMOOTHING = 0.5
ROWS_AT_ONCE = 2**13  # triples of a block, because an entity may have as many places as the graph


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

    The first is the log-odds of naive Bayes without the prior; a = SMOOTHING. All counts leave the triple out.
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
        inside = np.log(both + SMOOTHING) - np.log(self.sizes[c[rows]] - gone + 2 * SMOOTHING)
        others = self.facts.num_entities - self.sizes[c[rows]] + gone
        outside = np.log(size - both + SMOOTHING) - np.log(others + 2 * SMOOTHING)
        log_odds = row_sums(rows, inside - outside, len(e))
        return log_odds, row_maxima(rows, both / (size + 2 * SMOOTHING), len(e))
