"""How often each validation positive would be among the corruptions of the others, if it were a hidden fact.

Corruptions of valid are no facts of train or valid, but some are facts that no split may tell: hidden facts. Valid was
left out of train in the same way. So each fact of valid shows how often a hidden fact is among the corruptions: see
kgcore/calibration/hidden.py. `hits` are computed as if this fact alone were hidden, and all others known (leave one
out). Then the chance of a hit is that of a hidden fact. Hits are counted for each replaced side, because a split by
cold entities hides other facts from each: see `hidden_hits`. Leaving all facts of valid unfiltered would not do: a
positive with many hidden facts has few false corruptions, and each of its corruptions counts the more.
"""

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples, Weights
from kgcore.graph import TripleIndex


class DrawnHits:
    """Counts the hits of positives (n, 3) among drawn corruptions.

    seen  the known facts that are no hits: those of train
    """

    def __init__(self, positives: Triples, seen: TripleIndex) -> None:
        self._positives, self._seen = positives, seen
        self._rows: list[Ints] = []
        self._triples: list[Triples] = []

    def add(self, triples: Triples, rows: Ints) -> None:
        """Add draws (k, 3) that are known facts, and that are drawn again or dropped. rows (k,): their corruptions."""
        outside = ~self._seen.contains(triples)
        self._triples.append(triples[outside])
        self._rows.append(rows[outside])

    def for_each(self, kept: Bools, source: Ints) -> Floats:
        """Return the hits (n, 2) for each kept corruption.

        kept    (m,) mask of the corruptions that are no known facts in the end
        source  (m,) the positive of each corruption

        If a positive were hidden, its first draw for a corruption would be kept. So it counts once for a corruption.
        """
        triples, rows = np.concatenate(self._triples), np.concatenate(self._rows)
        _, first = np.unique(np.stack([rows, self._seen.keys(triples)], axis=1), axis=0, return_index=True)
        triples, source = triples[first], source[rows[first]]
        return hits_of(triples, np.ones(len(first)), source, self._positives, self._seen) / max(int(kept.sum()), 1)


def hits_of(triples: Triples, weights: Weights, source: Ints, positives: Triples, index: TripleIndex) -> Floats:
    """Return the weight of the triples (k, 3) that are equal to each positive: (n, 3) -> (n, 2).

    weights  (k,) of the triples. Equal positives share the weight
    source   (k,) the positive that each triple is a corruption of. The first column has the weight of the triples that
             replace its subject, the second of those that replace its object
    index    any facts of the graph, for its keys
    """
    keys, place, times = np.unique(index.keys(positives), return_inverse=True, return_counts=True)
    asked, on_object = index.keys(triples), triples[:, 0] == positives[source, 0]
    found = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    equal = keys[found] == asked
    counts = np.bincount(2 * found[equal] + on_object[equal], weights[equal], 2 * len(keys)).reshape(-1, 2)
    hits: Floats = (counts / times[:, None])[place]
    return hits
