"""Twins: facts that say the same by an inverse or duplicate predicate, or have subject and object exchanged."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components

from kgcore.arrays import Bools, Ints, Triples, sorted_distinct

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


def repeats_of(facts: Triples, entities: int, predicates: int, symmetric: float = SHARE) -> list[Repeat]:
    """Return which predicates repeat each other in facts (n, 3).

    The facts are compared in parts, to bound memory. Those of two entities, and their mirror images, are in one part.

    entities, predicates  numbers of entities and predicates
    symmetric             share from which on a predicate repeats itself, with subject and object exchanged
    """
    parts = max(1, -(-len(facts) // PART))
    part_of = (facts[:, 0] + facts[:, 2]) % parts
    shared = [_shared(facts[part_of == part], entities, predicates) for part in range(parts)]
    sizes = np.maximum(np.bincount(facts[:, 1], minlength=predicates), 1)
    repeats = []
    for inverse, matrices in zip((False, True), zip(*shared, strict=True), strict=True):
        common = reduce(add, matrices).tocoo()
        shares = common.data / sizes[common.row]
        itself = common.row == common.col
        of_others = np.where(inverse & (sizes[common.row] >= FEWEST), TURNED, SHARE)
        chosen = (shares >= np.where(itself, symmetric, of_others)) & (inverse | ~itself)
        places = zip(common.row[chosen], common.col[chosen], shares[chosen], strict=True)
        repeats += [Repeat(int(p), int(q), inverse, float(share)) for p, q, share in places]
    return repeats


def _shared(facts: Triples, entities: int, predicates: int) -> tuple[csr_matrix, csr_matrix]:
    """Return how many facts each two predicates share (R, R): as they are, and with the second one turned round."""
    forward, backward = facts[:, 0] * entities + facts[:, 2], facts[:, 2] * entities + facts[:, 0]
    keys = sorted_distinct(np.concatenate([forward, backward]))
    as_is, turned = (
        csr_matrix(
            (np.ones(len(facts), dtype=np.int64), (facts[:, 1], np.searchsorted(keys, pairs))),
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

    def units(self, facts: Triples, mirrored: bool = False) -> Ints:
        """Return the unit (n,) of each fact (n, 3): twins have the same one.

        mirrored  whether a fact and its mirror image have the same one, too, whatever the predicate
        """
        keys = self.keys(facts, int(facts.max(initial=0)) + 1, mirrored)
        return np.unique(keys, return_inverse=True)[1].reshape(-1)

    def keys(self, facts: Triples, entities: int, mirrored: bool = False) -> npt.NDArray[np.uint64]:
        """Return the key (n,) of each fact (n, 3) of a graph with so many entities: twins have the same one.

        mirrored  as in `units`
        """
        first, family, second = self.aligned(facts).astype(np.uint64).T
        if mirrored:
            first, second = np.minimum(first, second), np.maximum(first, second)
        keys: npt.NDArray[np.uint64] = (first * np.uint64(entities) + second) * np.uint64(2 * len(self.family)) + family
        return keys


def order_of_units(units: Ints, order: Ints) -> Ints:
    """Return a random order (n,) of facts with these units (n,), in which no unit is earlier because it is larger.

    order  (n,) a random order of the facts, in which the first fact of a unit gives its place
    """
    _, first, place = np.unique(units, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(order)[first][place.reshape(-1)], kind="stable")
