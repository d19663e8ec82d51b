"""How often each validation positive would be among the corruptions of the others, if it were a hidden fact.

Corruptions of valid are no facts of train or valid, but some are facts that no split may tell: hidden facts. Valid was
left out of train in the same way. So each fact of valid shows how often a hidden fact is among the corruptions: see
kgcore/calibration/hidden.py. `hits` are computed as if this fact alone were hidden, and all others known (leave one
out). Then the chance of a hit is that of a hidden fact. Leaving all facts of valid unfiltered would not do: a positive
with many hidden facts has few false corruptions, and each of its corruptions counts the more.
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

    def for_each(self, kept: Bools) -> Floats:
        """Return the hits (n,) for each kept corruption.

        kept  mask of the corruptions that are no known facts in the end

        If a positive were hidden, its first draw for a corruption would be kept. So it counts once for a corruption.
        """
        triples = np.concatenate(self._triples)
        drawn = np.stack([np.concatenate(self._rows), self._seen.keys(triples)], axis=1)
        _, first = np.unique(drawn, axis=0, return_index=True)
        return hits_of(triples[first], np.ones(len(first)), self._positives, self._seen) / max(int(kept.sum()), 1)


def hits_of(triples: Triples, weights: Weights, positives: Triples, index: TripleIndex) -> Floats:
    """Return the weight of the triples (k, 3) that are equal to each positive: (n, 3) -> (n,).

    weights  (k,) of the triples. Equal positives share the weight
    index    any facts of the graph, for its keys
    """
    keys, place, times = np.unique(index.keys(positives), return_inverse=True, return_counts=True)
    asked = index.keys(triples)
    found = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    equal = keys[found] == asked
    hits: Floats = (np.bincount(found[equal], weights[equal], len(keys)) / times)[place]
    return hits
