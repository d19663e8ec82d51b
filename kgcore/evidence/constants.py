"""Horn rules with a constant in the head, mined from the training facts: what else is known of entities like this."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csc_array, csr_array

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.evidence.base import ZERO, Feature, Source, Tile, Tiled
from kgcore.evidence.lookup import Counts, KeyTable, Links, expanded, meeting, ones_at, row_maxima, row_sums
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE

LEAST_SUPPORT = 3  # facts that a rule must explain
MOST_ITEMS = 48  # items of an entity: the most frequent ones
SMOOTHING = 1.0
HEADS_AT_ONCE = 2048


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
    support: Ints
    bodies: Ints

    names = (
        *("object_share", "object_rule_best", "object_rule_mean", "object_rule_lift", "object_rules"),
        *("subject_share", "subject_rule_best", "subject_rule_mean", "subject_rule_lift", "subject_rules"),
    )

    @classmethod
    def of(cls, source: Source) -> Self:
        links, (entities, predicates) = source.links, source.sizes
        width = 2 * predicates
        ends = np.repeat(np.arange(entities), links.degrees)
        frequency = Counts.of(links.kinds * entities + links.others)
        heads = KeyTable.of(frequency.table.keys[frequency.counts >= LEAST_SUPPORT])
        rows, places = heads.find(links.kinds * entities + links.others)
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


def _mined(has: csc_array, width: int, kinds: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the ascending keys of the rules, support and bodies. has: (E, I); kinds: (I - width,) of the heads."""
    columns = has.shape[1]
    empty = np.zeros(0, dtype=np.int64)
    keys, supports, bodies = [empty], [empty], [empty]
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
        supports.append(support[order].astype(np.int64))
        bodies.append(having(np.searchsorted(several, own) * columns + item)[order])
    return np.concatenate(keys), np.concatenate(supports), np.concatenate(bodies)
