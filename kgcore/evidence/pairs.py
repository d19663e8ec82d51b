"""How training facts link subject and object: common neighbours, rules with one atom, and paths."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import TripleIndex
from kgcore.evidence.base import ZERO, Feature, Source, Tile, Tiled
from kgcore.evidence.lookup import Counts, Links, best_and_any, expanded, meeting, row_sums
from kgcore.registries import EVIDENCE

MOST_NEIGHBOURS = 128  # of the entity with fewer neighbours
SMOOTHING = 1.0
MOST_TWO = 64  # links that are followed from the entity with fewer links, for paths of two facts
MOST_THREE = 8  # links that are followed from subject and from object, for paths of three facts
MOST_FACTS = 4_000  # facts of a predicate from which its confidences are counted
SHUFFLES = 3  # shuffled pairs for each of these facts


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
        many = csr_array((leaving.counts.astype(np.int64), (kind, x)), shape=(width, entities))
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

    def proposed(self, predicate: int, least: float) -> Triples:
        """Return the distinct triples (n, 3) of a predicate whose rule_best is at least `least`, unless train has them.

        Those that train has are among them if a rule with this confidence proposes them when they count.
        """
        predicates = self.links.num_predicates
        kinds = np.delete(np.arange(2 * predicates), predicate)
        keys = 2 * predicates * predicate + kinds
        kinds = kinds[self.support(keys) / (self.bodies(keys) + SMOOTHING) >= least]
        s, p, o = self.facts.triples[self.facts.triples[:, 0] != self.facts.triples[:, 2]].T
        along, against = np.isin(p, kinds), np.isin(p + predicates, kinds)
        ends = np.r_[s[along], o[against]], np.r_[o[along], s[against]]
        found: Triples = np.unique(np.stack([ends[0], np.full(len(ends[0]), predicate), ends[1]], axis=1), axis=0)
        return found


@EVIDENCE.register("paths")
@dataclass(frozen=True)
class Paths(Feature):
    """Paths of two or three training facts, in any directions, from s to o, without a loop or a return to s or o.

    The type of a path is the list of its predicates and directions. A type t has for the predicate p the confidence

        conf(p, t) = n / (n + m / SHUFFLES + SMOOTHING)

    where n is the number of facts (s, p, o), other than the triple itself, whose s and o a path of type t joins, and m
    the number of shuffled pairs that it joins. Shuffled pairs are a subject of p and an object of another fact of p,
    with SHUFFLES pairs a fact. So a confidence compares facts with pairs of the same entities. With n over all pairs
    that t joins, hubs would decide. The features of (s, p, o):

        path_two_best, path_three_best    the highest confidence among the paths
        path_two_any, path_three_any      the noisy-or 1 - prod (1 - conf) over the paths
        path_two_count, path_three_count  log(1 + number of paths)

    Lao et al., "Random Walk Inference and Learning in a Large Scale Knowledge Base", EMNLP 2011, use the same types of
    paths. A path of two facts is the body of a closed Horn rule with two atoms. Cost: at most MOST_TWO + MOST_THREE^2
    look-ups a triple; links to entities with few links are followed first. Confidences are counted from MOST_FACTS
    facts of a predicate. The left-out triple counts neither as a path nor in n; it stays a part of other facts' paths.

    Misleading where the candidates are much harder than shuffled pairs: confidences are then too high.

    counted  an index of the facts that n counts
    right    length -> n; key p T + t, with T = (2R)^length types
    wrong    length -> m
    """

    links: Links
    counted: TripleIndex
    right: dict[int, Counts]
    wrong: dict[int, Counts]

    names = (
        *("path_two_best", "path_two_any", "path_two_count"),
        *("path_three_best", "path_three_any", "path_three_count"),
    )

    @classmethod
    def of(cls, source: Source) -> Self:
        facts = _spread(source.triples, source.sizes[1])
        shuffled = _shuffled(facts, source.facts)
        right, wrong = ({n: _counted(source.links, part, n) for n in (2, 3)} for part in (facts, shuffled))
        return cls(source.links, source.graph.index(facts), right, wrong)

    def values(self, triples: Triples) -> Floats:
        own = self.counted.contains(triples)
        columns: list[Floats] = []
        for length in (2, 3):
            rows, keys = _paths(self.links, triples, length)
            right = self.right[length](keys) - own[rows]
            shares = right / (right + self.wrong[length](keys) / SHUFFLES + SMOOTHING)
            columns += [*best_and_any(rows, shares, len(triples)), np.log1p(np.bincount(rows, minlength=len(triples)))]
        return np.stack(columns, axis=1)

    def tile(self, tile: Tile) -> Tiled:
        beside = self.links.first(tile.subjects, MOST_THREE) @ self.links.matrix
        three = meeting(beside, self.links.first(tile.objects, MOST_THREE))
        return Tiled((ZERO,) * len(self.names), self.links.near(tile) | three)


def _spread(facts: Triples, predicates: int) -> Triples:
    """Return at most MOST_FACTS facts of each predicate, evenly spaced among its ascending facts; by predicate."""
    facts = facts[np.lexsort((facts[:, 2], facts[:, 0], facts[:, 1]))]
    sizes = np.bincount(facts[:, 1], minlength=predicates)
    number = np.arange(len(facts)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    steps = -(-sizes // MOST_FACTS)
    kept: Triples = facts[number % steps[facts[:, 1]] == 0]
    return kept


def _shuffled(facts: Triples, known: TripleIndex) -> Triples:
    """Pair each subject with the objects of SHUFFLES other facts of the predicate, without pairs that are facts.

    facts  ordered by predicate and subject. The other facts are a quarter, a half and three quarters of the list away
    """
    sizes = np.bincount(facts[:, 1])
    first = np.cumsum(sizes) - sizes
    own, size = np.arange(len(facts)) - first[facts[:, 1]], sizes[facts[:, 1]]
    parts = []
    for shuffle in range(1, SHUFFLES + 1):
        away = (own + size * shuffle // (SHUFFLES + 1)) % size
        parts.append(np.column_stack([facts[:, :2], facts[first[facts[:, 1]] + away, 2]]))
    pairs = np.concatenate(parts)
    return pairs[~known.contains(pairs)]


def _counted(links: Links, triples: Triples, length: int) -> Counts:
    """Count the triples that each type of path joins."""
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(triples), 2**14):
        rows, keys = _paths(links, triples[start : start + 2**14], length)
        ordered = np.lexsort((keys, rows))
        rows, keys = rows[ordered], keys[ordered]
        again = (rows[1:] == rows[:-1]) & (keys[1:] == keys[:-1])
        found.append(keys[np.r_[True, ~again]] if len(keys) else keys)
    return Counts.of(np.concatenate(found))


def _paths(links: Links, triples: Triples, length: int) -> tuple[Ints, Ints]:
    """Return row and key p T + t of each path from subject to object; rows ascend."""
    s, p, o = triples.T
    rows, types = (_two if length == 2 else _three)(links, s, o)
    return rows, p[rows] * (2 * links.num_predicates) ** length + types


def _two(links: Links, s: Ints, o: Ints) -> tuple[Ints, Ints]:
    """Return row and type of each path s - z - o."""
    width = 2 * links.num_predicates
    turned = links.degrees[s] > links.degrees[o]
    near, far = np.where(turned, o, s), np.where(turned, s, o)
    steps, middle, first = links.leaving(near, MOST_TWO, far)
    hits, second = links.between(middle, far[steps])
    rows, first = steps[hits], first[hits]
    back = turned[rows]
    types = np.where(back, links.inverse(second) * width + links.inverse(first), first * width + second)
    open_ends = (s != o)[rows]
    return rows[open_ends], types[open_ends]


def _three(links: Links, s: Ints, o: Ints) -> tuple[Ints, Ints]:
    """Return row and type of each path s - x - y - o with x other than o and y other than s."""
    width = 2 * links.num_predicates
    steps, x, first = links.leaving(s, MOST_THREE, o)
    open_ends = (s != o)[steps]
    steps, x, first = steps[open_ends], x[open_ends], first[open_ends]
    ends, y, third = links.leaving(o, MOST_THREE, s)
    counts = np.bincount(ends, minlength=len(o))
    left, right = expanded((np.cumsum(counts) - counts)[steps], counts[steps])
    hits, second = links.between(x[left], y[right])
    left, right = left[hits], right[hits]
    return steps[left], (first[left] * width + second) * width + links.inverse(third[right])
