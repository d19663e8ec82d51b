"""Common neighbours of subject and object, and other facts of the pair."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.links import Links
from kgcore.evidence.lookup import row_sums
from kgcore.evidence.tile import ZERO, Tile, Tiled
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE

MOST_NEIGHBOURS = 128  # of the entity with fewer neighbours


@EVIDENCE.register("neighbours")
@dataclass(frozen=True)
class Neighbours(Feature):
    """How subject and object are linked by training facts, whatever the predicates. For (s, p, o) that is left out:

        common_neighbours  log(1 + c) for the number c of z, other than s and o, that are linked to both
        adamic_adar        sum over these z of 1 / log(1 + neighbours of z)
        jaccard            c / (neighbours of s or o, other than s and o); 0 without neighbours
        reverse_known      1 if train has (o, p, s)
        other_relations    log(1 + other facts about s and o together, apart from (o, p, s))

    Adamic and Adar, "Friends and neighbors on the Web", Social Networks 2003. Of the entity with fewer neighbours,
    MOST_NEIGHBOURS are followed, those with the fewest links first. Cost: at most so many look-ups a triple.

    Misleading in graphs in which one fact is written twice, in both directions: the reverse fact then answers alone.

    facts  an index of the training facts
    links  one link for each pair of linked entities
    every  all links
    """

    facts: TripleIndex
    links: Links
    every: Links

    names = ("common_neighbours", "adamic_adar", "jaccard", "reverse_known", "other_relations")

    @classmethod
    def of(cls, source: Source) -> Self:
        every = source.links
        keys = every.pairs.keys
        ends, others = np.divmod(keys[keys // every.num_entities < keys % every.num_entities], every.num_entities)
        single = Links.of(np.stack([ends, np.zeros_like(ends), others], axis=1), every.num_entities, 1)
        return cls(source.facts, single, every)

    def values(self, triples: Triples) -> Floats:
        s, _, o = triples.T
        own, loop, count = self.facts.contains(triples), s == o, len(triples)
        reverse = self.facts.contains(triples[:, ::-1]) & ~loop
        direct = self.every.number(s, o)
        other = np.where(loop, 0, direct - own - reverse)
        rows, shared = self._shared(s, o)
        common = np.bincount(rows, minlength=count)
        weight = row_sums(rows, 1 / np.log1p(self.links.degrees[shared]), count)
        degrees = self.links.degrees[s] + self.links.degrees[o] - 2 * (direct > 0) - common
        jaccard = common / np.maximum(degrees, 1)
        return np.stack([np.log1p(common), weight, jaccard, reverse.astype(float), np.log1p(other)], axis=1)

    def tile(self, tile: Tile) -> Tiled:
        return Tiled((ZERO,) * len(self.names), self.links.near(tile))

    def _shared(self, s: Ints, o: Ints) -> tuple[Ints, Ints]:
        """Return row and entity of each common neighbour other than s and o; rows ascend."""
        degrees = self.links.degrees
        fewer = degrees[s] <= degrees[o]
        near, far = np.where(fewer, s, o), np.where(fewer, o, s)
        rows, middle, _ = self.links.leaving(near, MOST_NEIGHBOURS, far)
        hits, _ = self.links.pairs.find(middle * self.links.num_entities + far[rows])
        hits = hits[(s != o)[rows[hits]]]
        return rows[hits], middle[hits]
