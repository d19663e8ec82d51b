"""Twins: facts that say the same by an inverse or duplicate predicate, or have subject and object exchanged."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components

from kgcore.arrays import (
    Bools,
    Ints,
    Numbers,
    Triples,
    blocks,
    chosen,
    first_places,
    is_first,
    small_type,
    sort_distinct,
    taken,
)
from kgcore.data.graph import TripleIndex

SHARE = 0.8  # a predicate repeats another one if this share of its facts are facts of the other one
TURNED = 0.5  # the same for facts with subject and object exchanged: few predicates have these by chance
FEWEST = 10  # facts of a predicate, from which on TURNED holds in place of SHARE
PART = 2**19  # facts that are compared at a time


@dataclass(frozen=True)
class Repeat:
    """A predicate most of whose facts another predicate has too. A predicate that repeats itself is symmetric.

    inverse  whether the other predicate has them with subject and object exchanged
    share    the share of the facts, at least SHARE; TURNED for an inverse
    """

    predicate: int
    other: int
    inverse: bool
    share: float


def repeats_of(facts: Numbers | TripleIndex, entities: int, predicates: int, symmetric: float = SHARE) -> list[Repeat]:
    """Return which predicates repeat each other in distinct facts (n, 3), or (n, 4) with a label.

    The facts are compared in parts, to bound memory. Those of two entities, and their mirror images, are in one part.

    entities, predicates  numbers of entities and predicates
    symmetric             share from which on a predicate repeats itself, with subject and object exchanged
    """
    parts = max(1, -(-len(facts) // PART))
    part_of, sizes = np.empty(len(facts), dtype=np.uint32), np.zeros(predicates, dtype=np.int64)
    for rows in blocks(len(facts)):
        s, p, o = facts[rows][:, :3].T
        part_of[rows] = (s.astype(np.int64) + o) % parts
        sizes += np.bincount(p, minlength=predicates)
    shared = [_shared(facts[np.flatnonzero(part_of == part)], entities, predicates) for part in range(parts)]
    sizes, repeats = np.maximum(sizes, 1), []
    for inverse, matrices in zip((False, True), zip(*shared, strict=True), strict=True):
        common = reduce(add, matrices).tocoo()
        shares = common.data / sizes[common.row]
        itself = common.row == common.col
        of_others = np.where(inverse & (sizes[common.row] >= FEWEST), TURNED, SHARE)
        chosen = (shares >= np.where(itself, symmetric, of_others)) & (inverse | ~itself)
        places = zip(common.row[chosen], common.col[chosen], shares[chosen], strict=True)
        repeats += [Repeat(int(p), int(q), inverse, float(share)) for p, q, share in places]
    return repeats


def _shared(facts: Numbers, entities: int, predicates: int) -> tuple[csr_matrix, csr_matrix]:
    """Return how many facts each two predicates share (R, R): as they are, and with the second one turned round.

    Facts whose two entities have no other fact share none, unless both are the same: most are left out.
    """
    s, o = facts[:, 0].astype(np.int64), facts[:, 2].astype(np.int64)
    pairs = np.minimum(s, o) * entities + np.maximum(s, o)
    ordered = np.sort(pairs)
    kept = np.isin(pairs, ordered[1:][ordered[1:] == ordered[:-1]]) | (s == o)
    s, p, o = s[kept], facts[kept, 1], o[kept]
    forward, backward = s * entities + o, o * entities + s
    keys = sort_distinct(np.concatenate([forward, backward]))
    as_is, turned = (
        csr_matrix(
            (np.ones(len(p), dtype=np.int64), (p, np.searchsorted(keys, pairs))),
            shape=(predicates, len(keys)),
        )
        for pairs in (forward, backward)
    )
    return csr_matrix(as_is @ as_is.T), csr_matrix(as_is @ turned.T)


@dataclass(frozen=True)
class Families:
    """Families of predicates that say the same of two entities, some with subject and object exchanged.

    family     (R,) the family of each predicate
    turned     (R,) whether the predicate has subject and object the other way round than its family
    symmetric  (R,) whether the family holds both ways
    """

    family: Ints
    turned: Bools
    symmetric: Bools

    @classmethod
    def of(cls, repeats: list[Repeat], predicates: int, mutual: bool = False) -> "Families":
        """Put predicates that repeat each other into one family, also over several steps.

        mutual  whether two predicates must repeat each other both ways: a predicate with many further facts stays apart

        Predicate p has the nodes p, as it is, and R + p, turned round. A family is a component of this graph.
        """
        pairs = {(repeat.predicate, repeat.other, repeat.inverse) for repeat in repeats}
        kept = [repeat for repeat in pairs if not mutual or (repeat[1], repeat[0], repeat[2]) in pairs]
        p, q, inverse = np.array(kept, dtype=np.int64).reshape(-1, 3).T
        rows, columns = np.r_[p, p + predicates], np.r_[q + predicates * inverse, q + predicates * (1 - inverse)]
        links = coo_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(2 * predicates, 2 * predicates))
        nodes = connected_components(links, directed=False)[1].astype(np.int64)
        as_is, turned = nodes[:predicates], nodes[predicates:]
        return cls(np.minimum(as_is, turned), turned < as_is, as_is == turned)

    def aligned(self, facts: Triples) -> Triples:
        """Return facts (n, 3) as first entity, family, second entity. Twins become equal."""
        p = facts[:, 1]
        first, second = np.where(self.turned[p], facts[:, [2, 0]].T, facts[:, [0, 2]].T)
        swapped = self.symmetric[p] & (first > second)
        first, second = np.where(swapped, [second, first], [first, second])
        return np.stack([first, self.family[p], second], axis=1)

    def units(self, facts: Numbers, entities: int, mirrored: bool = False) -> Numbers:
        """Return the unit (n,) of each fact (n, 3) of a graph with so many entities: twins have the same one.

        mirrored  whether a fact and its mirror image have the same one, too, whatever the predicate
        """
        keys = self.keys(facts, entities, mirrored)
        order = np.argsort(keys)
        keys.sort()  # keys[order], in place
        is_new = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
        del keys
        is_new[:1] = False  # the first unit is 0
        units = np.empty(len(order), dtype=small_type(len(order)))
        units[order] = np.cumsum(is_new, dtype=units.dtype)
        return units

    def keys(self, facts: Numbers | TripleIndex, entities: int, mirrored: bool = False) -> npt.NDArray[np.uint64]:
        """Return the key (n,) of each fact (n, 3) of a graph with so many entities: twins have the same one.

        mirrored  as in `units`
        """
        keys = np.empty(len(facts), dtype=np.uint64)
        for rows in blocks(len(facts)):
            first, family, second = self.aligned(facts[rows]).astype(np.uint64).T
            if mirrored:
                first, second = np.minimum(first, second), np.maximum(first, second)
            keys[rows] = (first * np.uint64(entities) + second) * np.uint64(2 * len(self.family)) + family
        return keys


def units_of(rows: Numbers, true: Bools, families: Families, entities: int, mirrored: bool) -> Numbers:
    """Return the unit (n,) of each row (n, 4): that of `Families.units` for a true one, and its own for a negative."""
    units = families.units(chosen(rows, true), entities, mirrored)
    if len(units) == len(rows):
        return units
    of_rows = np.empty(len(rows), dtype=small_type(len(rows)))
    of_rows[true] = units
    of_rows[~true] = units.max(initial=-1) + 1 + np.arange((~true).sum())
    return of_rows


def order_of_units(units: Numbers, rng: np.random.Generator) -> Numbers:
    """Return a random order (n,) of facts with these units (n,), in which no unit is earlier because it is larger.

    The first fact of a unit has a random place, and the others of the unit follow it.
    """
    order = rng.permutation(np.arange(len(units), dtype=small_type(len(units))))
    first = is_first(units)
    leaders, others = order[taken(first, order)], np.flatnonzero(~first)
    del order, first
    places = 1 + first_places(taken(units, leaders), int(units.max(initial=-1)) + 1)[units[others]]
    by_place = np.argsort(places, kind="stable")
    return np.insert(leaders, places[by_place], others[by_place])
