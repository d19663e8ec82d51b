"""Horn rules with one atom in the body, mined from the training facts, between the two entities of a triple."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from kgcore.arrays import Floats, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.links import Links
from kgcore.evidence.lookup import Counts, best_and_any
from kgcore.evidence.tile import ZERO, Tile, Tiled
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE

SMOOTHING = 1.0


@EVIDENCE.register("rules")
@dataclass(frozen=True)
class Rules(Feature):
    """Rules q(X, Y) => p(X, Y) and q(Y, X) => p(X, Y), also with q = p in the second. Their confidence is

        conf = #{(x, y): q(x, y), p(x, y)} / (#{(x, y): q(x, y), p(x, z) for some z != x} + SMOOTHING)

    the PCA confidence of Galárraga et al., "Fast rule mining in ontological knowledge bases with AMIE+", VLDB Journal
    2015, section 3, smoothed. Both counts leave the triple out. The features of a triple (s, p, o), over the rules
    whose body is a training fact about s and o:

        rule_best    the highest confidence
        rule_any     the noisy-or 1 - prod (1 - conf)
        rules_fired  log(1 + number of rules)

    Closed rules with two atoms in the body are in `paths`, rules with a constant in `constants`. Cost: one look-up for
    the pair, and three for each of its facts. Misleading where one fact is written under two predicates: the second
    answers for the first.

    facts         an index of the training facts
    links         the links between entities
    support       (p, kind of link) -> number of facts of p with such a link; key p 2R + kind
    bodies        (p, kind) -> number of links of the kind whose X has some object by p
    leaving       (e, kind) -> number of links of the kind; key e 2R + kind
    """

    facts: TripleIndex
    links: Links
    support: Counts
    bodies: Counts
    leaving: Counts

    names = ("rule_best", "rule_any", "rules_fired")

    @classmethod
    def of(cls, source: Source) -> Self:
        links, (entities, predicates) = source.links, source.sizes
        s, p, o = source.triples.T
        width = 2 * predicates
        rows, kinds = links.between(s, o)
        others = kinds != p[rows]
        support = Counts.of(p[rows[others]] * width + kinds[others])
        ends = np.repeat(np.arange(entities), links.degrees)
        leaving = Counts.of(ends * width + links.kinds)
        x, kind = np.divmod(leaving.table.keys, width)
        many = csr_array((leaving.counts, (kind, x)), shape=(width, entities))
        has = np.unique((s * predicates + p)[s != o])
        subjects = csr_array((np.ones(len(has), dtype=np.int64), np.divmod(has, predicates)), (entities, predicates))
        return cls(source.facts, links, support, Counts.of_matrix(subjects.T @ many.T), leaving)

    def values(self, triples: Triples) -> Floats:
        s, p, o = triples.T
        own, width = self.facts.contains(triples), 2 * self.links.num_predicates
        rows, kinds = self.links.between(s, o)
        others = kinds != p[rows]  # only the triple itself links s to o by p
        rows, kinds = rows[others], kinds[others]
        keys, left = p[rows] * width + kinds, own[rows].astype(np.int64)
        mirrored = left * (kinds == p[rows] + self.links.num_predicates)  # the triple is the body of the reverse fact
        only = own & (self.leaving(s * width + p) == 1)
        bodies = self.bodies(keys) - only[rows] * self.leaving(s[rows] * width + kinds) - mirrored
        shares = (self.support(keys) - left - mirrored) / (bodies + SMOOTHING)
        fired = np.bincount(rows, minlength=len(triples))
        return np.stack([*best_and_any(rows, shares, len(triples)), np.log1p(fired)], axis=1)

    def tile(self, tile: Tile) -> Tiled:
        return Tiled((ZERO,) * len(self.names), self.links.linked(tile))
