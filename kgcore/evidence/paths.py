"""Paths of two and of three training facts from subject to object, with the confidence of each type of path."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.links import Links
from kgcore.evidence.lookup import Counts, best_and_any, expanded
from kgcore.evidence.tile import ZERO, Tile, Tiled, meeting
from kgcore.graph import TripleIndex
from kgcore.registries import EVIDENCE

MOST_TWO = 64  # links that are followed from the entity with fewer links, for paths of two facts
MOST_THREE = 8  # links that are followed from subject and from object, for paths of three facts
MOST_FACTS = 4_000  # facts of a predicate from which its confidences are counted
SHUFFLES = 3  # shuffled pairs for each of these facts
SMOOTHING = 1.0


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
