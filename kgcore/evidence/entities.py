"""What the training facts say of each entity: degrees, fit for its place, and what is known of entities like it."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csc_array, csr_array

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.data.graph import TripleIndex
from kgcore.evidence.base import ZERO, Feature, Source, Tile, Tiled
from kgcore.evidence.lookup import Counts, Ints32, KeyTable, Links, expanded, meeting, ones_at, row_maxima, row_sums
from kgcore.registries import EVIDENCE

TYPE_SMOOTHING = 0.5
ROWS_AT_ONCE = 2**13  # triples of a block, because an entity may have as many places as the graph
LEAST_SUPPORT = 3  # facts that a rule must explain
MOST_ITEMS = 48  # items of an entity: the most frequent ones
SMOOTHING = 1.0
HEADS_AT_ONCE = 2048


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


@EVIDENCE.register("constants")
@dataclass(frozen=True)
class Constants(Feature):
    """Rules item(X) => p(X, c), and item(Y) => p(c, Y). An item is one of

        q(X, d) or q(d, X)    a link of kind q with the entity d
        q(X, .) or q(., X)    some link of kind q

    The confidence of a rule is the smoothed PCA confidence, conf = n / (m + SMOOTHING) with n = #{x: item(x), p(x, c)}
    and m = #{x: item(x), p(x, z) for some z}. For a triple (s, p, o) that is left out, over the items of s that have a
    rule for the head p(X, o), apart from p(X, .) and p(., X):

        object_share      the confidence of the item p(X, .): how frequent o is among the objects of p
        object_rule_best  the highest confidence; 0 without rules
        object_rule_mean  the mean confidence; 0 without rules
        object_rule_lift  the mean of log(conf / object_share); 0 without rules
        object_rules      log(1 + number of rules)
        subject_...       the same for the items of o and the head p(s, Y)

    These are the rules with constants of Meilicke et al., "Anytime Bottom-Up Rule Learning for Knowledge Graph
    Completion", IJCAI 2019, with a body of one atom. A rule must explain LEAST_SUPPORT facts. Of each entity, the
    MOST_ITEMS most frequent items are used. Cost: one look-up for each item of both entities.

    Misleading where negatives were drawn without regard to frequency: then a frequent object is enough.

    facts    an index of the training facts
    links    the links between entities
    leaving  (e, kind) -> number of links; key e 2R + kind
    frequency  (kind, d) -> number of entities; key kind E + d
    having   (2R,) number of entities with some link of the kind
    heads    the items q(X, d) that have LEAST_SUPPORT entities; key kind E + d. Item 2R + i is the i-th of them, item
             kind is q(X, .)
    starts   (E + 1,) where the items of each entity start in `items`
    items    the items of all entities
    rules    the rules; key head I + item with I items
    support  n of each rule
    bodies   m of each rule
    """

    facts: TripleIndex
    links: Links
    leaving: Counts
    frequency: Counts
    having: Ints
    heads: KeyTable
    starts: Ints
    items: Ints
    rules: KeyTable
    support: Ints32
    bodies: Ints32

    names = (
        *("object_share", "object_rule_best", "object_rule_mean", "object_rule_lift", "object_rules"),
        *("subject_share", "subject_rule_best", "subject_rule_mean", "subject_rule_lift", "subject_rules"),
    )

    @classmethod
    def of(cls, source: Source) -> Self:
        links, (entities, predicates) = source.links, source.sizes
        width = 2 * predicates
        ends = np.repeat(np.arange(entities), links.degrees)
        pairs = links.kinds.astype(np.int64) * entities + links.others
        frequency = Counts.of(pairs)
        heads = KeyTable.of(frequency.table.keys[frequency.counts >= LEAST_SUPPORT])
        rows, places = heads.find(pairs)
        kinds = np.unique(ends * width + links.kinds)
        owners = np.concatenate([kinds // width, ends[rows]])
        items = np.concatenate([kinds % width, places + width])
        sizes = np.bincount(items, minlength=width + len(heads.keys))
        order = np.lexsort((items, -sizes[items], owners))
        owners, items = owners[order], items[order]
        rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
        owners, items = owners[rank < MOST_ITEMS], items[rank < MOST_ITEMS]
        has = csr_array((np.ones(len(owners), dtype=np.int32), (owners, items)), shape=(entities, len(sizes)))
        rules, support, bodies = _mined(has.tocsc(), width, heads.keys // entities)
        return cls(
            source.facts,
            links,
            Counts.of(ends * width + links.kinds),
            frequency,
            np.bincount(kinds % width, minlength=width),
            heads,
            np.searchsorted(owners, np.arange(entities + 1)),
            items,
            KeyTable.of(rules),
            support,
            bodies,
        )

    def values(self, triples: Triples) -> Floats:
        s, p, o = triples.T
        own = self.facts.contains(triples) & (s != o)
        backwards = p + self.links.num_predicates
        return np.concatenate([self._of_head(s, p, o, own), self._of_head(o, backwards, s, own)], axis=1)

    def tile(self, tile: Tile) -> Tiled:
        s, o, p = tile.subjects, tile.objects, tile.predicate
        sided = dict(zip(self.names, tile.sided(self, "subject_"), strict=True))
        fired = self._fired(s, p, o) | self._fired(o, p + self.links.num_predicates, s).T
        return Tiled((sided["object_share"], *(ZERO,) * 4, sided["subject_share"], *(ZERO,) * 4), fired)

    def _fired(self, entities: Ints, kind: int, others: Ints) -> Bools:
        """Return which entities (n,) have an item with a rule for the heads kind(X, other), others (m,): (n, m)."""
        count = 2 * self.links.num_predicates + len(self.heads.keys)
        known, places = self.heads.find(kind * self.links.num_entities + others)
        heads = places + 2 * self.links.num_predicates
        first, last = (np.searchsorted(self.rules.keys, (heads + more) * count) for more in (0, 1))
        rows, rules = expanded(first, last - first)
        bodies = ones_at(known[rows], self.rules.keys[rules] % count, (len(others), count))
        rows, entries = expanded(self.starts[entities], np.diff(self.starts)[entities])
        return meeting(ones_at(rows, self.items[entries], (len(entities), count)), bodies)

    def _of_head(self, e: Ints, kinds: Ints, others: Ints, own: Bools) -> Floats:
        """Return the features (n, 5) of the heads kind(X, other) for the entities e (n,) in the place of X."""
        width, count = 2 * self.links.num_predicates, len(e)
        known, places = self.heads.find(kinds * self.links.num_entities + others)
        rows, entries = expanded(self.starts[e[known]], np.diff(self.starts)[e[known]])
        head, items = places[rows] + width, self.items[entries]
        rows = known[rows]
        hits, rules = self.rules.find(head * (width + len(self.heads.keys)) + items)
        rows = rows[hits]
        only = own & (self.leaving(e * width + kinds) == 1)
        support, bodies = self.support[rules] - own[rows], self.bodies[rules] - only[rows]
        enough = support >= LEAST_SUPPORT
        rows, shares = rows[enough], support[enough] / (bodies[enough] + SMOOTHING)
        frequency = self.frequency(kinds * self.links.num_entities + others) - own
        share = frequency / (self.having[kinds] - only + SMOOTHING)
        fired = np.bincount(rows, minlength=count)
        some = np.maximum(fired, 1)
        lift = row_sums(rows, np.log(shares / share[rows]), count) / some
        mean = row_sums(rows, shares, count) / some
        return np.stack([share, row_maxima(rows, shares, count), mean, lift, np.log1p(fired)], axis=1)


def _mined(has: csc_array, width: int, kinds: Ints) -> tuple[Ints, Ints32, Ints32]:
    """Return the ascending keys of the rules, support and bodies. has: (E, I); kinds: (I - width,) of the heads."""
    columns = has.shape[1]
    keys, small = [np.zeros(0, dtype=np.int64)], np.zeros(0, dtype=np.int32)
    supports, bodies = [small], [small]
    by_entity = has.tocsr()
    for start in range(0, len(kinds), HEADS_AT_ONCE):
        part = kinds[start : start + HEADS_AT_ONCE]
        joint = (has[:, width + start : width + start + len(part)].T @ by_entity).tocoo()
        head, item = joint.row.astype(np.int64), joint.col.astype(np.int64)
        own = part[head]
        kept = (joint.data >= LEAST_SUPPORT) & (item != head + width + start)
        kept &= (item != own) & (item != (own + width // 2) % width)
        head, item, support, own = head[kept], item[kept], joint.data[kept], own[kept]
        several = np.unique(part)
        having = Counts.of_matrix(has[:, several].T @ by_entity)
        order = np.lexsort((item, head))
        keys.append(((head + width + start) * columns + item)[order])
        supports.append(support[order].astype(np.int32))
        bodies.append(having(np.searchsorted(several, own) * columns + item)[order].astype(np.int32))
    return np.concatenate(keys), np.concatenate(supports), np.concatenate(bodies)
