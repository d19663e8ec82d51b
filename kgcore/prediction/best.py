"""Keeps the best of a stream of scored pairs: the N highest overall, or per subject, or per object."""

import numpy as np

from kgcore.arrays import Bools, Floats, Ints

MOST_ROWS = 2**20  # rows beyond which the stream is pruned
MARGIN = 1e-4  # relative: pairs this close below the N-th are kept, because a later exact score may change their order


class Best:
    """The pairs of a stream that may be among the N highest of their group.

    top       N, at least 1
    groups    number of groups: 1, or one for each subject or object
    is_exact  whether the scores are exact. Then exactly N pairs of a group are kept, even if many have equal scores

    `cuts` (groups,) holds the score from which on a pair of the group can still be among the best.
    """

    def __init__(self, top: int, groups: int, is_exact: bool = False) -> None:
        self._top, self._is_exact = top, is_exact
        self.cuts = np.full(groups, -np.inf)
        self._scores: list[Floats] = []
        self._pairs: list[Ints] = []
        self._groups: list[Ints] = []
        self._rows = 0

    def add(self, scores: Floats, pairs: Ints, groups: Ints) -> None:
        """Add scored pairs: scores (n,), pairs (n, 2), and the group (n,) of each pair."""
        self._scores.append(scores)
        self._pairs.append(pairs)
        self._groups.append(groups)
        self._rows += len(scores)
        if self._rows > max(MOST_ROWS, 2 * self._top * len(self.cuts)):
            self._prune()

    def pairs(self) -> Ints:
        """Return the kept pairs (m, 2): the N best of each group and, unless scores are exact, those near the N-th."""
        self._prune()
        return self._pairs[0] if self._pairs else np.zeros((0, 2), dtype=np.int64)

    def _prune(self) -> None:
        if not self._rows:
            return
        scores, pairs = np.concatenate(self._scores), np.concatenate(self._pairs)
        groups = np.concatenate(self._groups)
        nth = nth_highest(scores, groups, self._top, len(self.cuts))
        self.cuts = np.maximum(self.cuts, nth - margin(nth))
        kept = best_of(scores, pairs, groups, self._top) if self._is_exact else scores >= self.cuts[groups]
        self._scores, self._pairs, self._groups = [scores[kept]], [pairs[kept]], [groups[kept]]
        self._rows = len(self._scores[0])


def margin(scores: Floats) -> Floats:
    """Return how far below a score another one may be that exact scoring could still put above it."""
    width: Floats = np.where(np.isfinite(scores), MARGIN * np.maximum(1.0, np.abs(scores)), 0.0)
    return width


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
