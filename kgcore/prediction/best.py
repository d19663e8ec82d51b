"""Keeps the best of a stream of scored pairs: the N highest overall, or per subject, or per object."""

import numpy as np

from kgcore.arrays import Bools, Floats, Ints

MOST_ROWS = 2**18  # rows beyond which the stream is pruned


class Best:
    """The pairs of a stream that may be among the N highest of their group, by bounds of their scores.

    top     N, at least 1
    groups  number of groups: 1, or one for each subject or object

    `cuts` (groups,) holds the N-th highest lower bound of each group: a pair whose upper bound is below it is not among
    the best.
    """

    def __init__(self, top: int, groups: int) -> None:
        self._top = top
        self.cuts = np.full(groups, -np.inf)
        self._bounds: list[Floats] = []
        self._pairs: list[Ints] = []
        self._groups: list[Ints] = []
        self._rows = 0

    def add(self, low: Floats, high: Floats, pairs: Ints, groups: Ints) -> None:
        """Add pairs (n, 2) with bounds (n,) of their scores, and the group (n,) of each pair."""
        self._bounds.append(np.stack([low, high]))
        self._pairs.append(pairs)
        self._groups.append(groups)
        self._rows += len(pairs)
        if self._rows > max(MOST_ROWS, 2 * self._top * len(self.cuts)):
            self._prune()

    def pairs(self) -> Ints:
        """Return the kept pairs (m, 2): the N best of each group and, unless scores are exact, those near the N-th."""
        self._prune()
        return self._pairs[0] if self._pairs else np.zeros((0, 2), dtype=np.int64)

    def _prune(self) -> None:
        if not self._rows:
            return
        low, high = np.concatenate(self._bounds, axis=1)
        pairs, groups = np.concatenate(self._pairs), np.concatenate(self._groups)
        self.cuts = np.maximum(self.cuts, nth_highest(low, groups, self._top, len(self.cuts)))
        kept = high >= self.cuts[groups]
        kept[self._surplus(low, high, pairs, groups)] = False
        self._bounds, self._pairs, self._groups = [np.stack([low, high])[:, kept]], [pairs[kept]], [groups[kept]]
        self._rows = len(self._pairs[0])

    def _surplus(self, low: Floats, high: Floats, pairs: Ints, groups: Ints) -> Ints:
        """Return the rows whose exact score is the cut, beyond the N best: of equal scores, the first pairs count."""
        above = np.bincount(groups[low > self.cuts[groups]], minlength=len(self.cuts))
        tied = np.flatnonzero((low == high) & (low == self.cuts[groups]))
        tied = tied[np.lexsort((pairs[tied, 1], pairs[tied, 0], groups[tied]))]
        own = groups[tied]
        surplus: Ints = tied[np.arange(len(tied)) - np.searchsorted(own, own) >= (self._top - above)[own]]
        return surplus


def nth_highest(scores: Floats, groups: Ints, n: int, number: int) -> Floats:
    """Return the n-th highest score of each group (number,); -inf for a group with fewer scores.

    scores  (m,), groups (m,) from 0 to number - 1
    """
    nth = np.full(number, -np.inf)
    if number == 1:
        if len(scores) >= n:
            nth[0] = np.partition(scores, len(scores) - n)[len(scores) - n]
        return nth
    order = np.lexsort((-scores, groups))
    first = np.searchsorted(groups[order], np.arange(number))
    counts = np.bincount(groups, minlength=number)
    full = counts >= n
    nth[full] = scores[order][first[full] + n - 1]
    return nth


def best_of(scores: Floats, pairs: Ints, groups: Ints, n: int) -> Ints:
    """Return the rows of the n highest scores of each group, sorted by group, then by score, then by pair.

    Equal scores are ordered by the pair, so that the result does not depend on the order of the rows.
    """
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores, groups))
    sorted_groups = groups[order]
    place = np.arange(len(order)) - np.searchsorted(sorted_groups, sorted_groups)
    kept: Bools = place < n
    return order[kept]
