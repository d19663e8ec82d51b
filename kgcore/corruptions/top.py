"""The rows with the highest scores of a long stream, in bounded memory."""

import numpy as np

from kgcore.arrays import Floats, Ints, Scores, Triples, Weights


class Top:
    """The rows with the highest scores that were added: over all relations, and in each relation.

    A row of relation r is kept if its score is above limit_r = min(c, c_r). c is the score that at most half of `most`
    rows exceed. c_r is the score that at most own_r rows of the relation exceed, where the own_r share the other half.
    So the top of all scores is kept, for a map of all relations, and the top of each relation, for its own map. A row
    that is left out can never come back, because no limit falls.

    most      largest number of rows that are kept
    by_relation  (R,) numbers by which the relations share half of `most`: those of the positives

    limits    (R,) a row with a higher score is kept; -inf: all rows of the relation are kept
    seen      (R,) total weight of all rows that were added
    squares   (R,) sum of the squares of their weights
    rows      number of rows that were added
    held      largest number of rows in memory so far
    """

    def __init__(self, most: int, by_relation: Ints) -> None:
        self._most, self._half = most, most // 2
        self._own = (most - self._half) * by_relation // max(1, int(by_relation.sum()))
        self._all, self._each = -np.inf, np.full(len(by_relation), -np.inf)
        self.seen, self.squares = np.zeros(len(by_relation)), np.zeros(len(by_relation))
        self.rows, self.held = 0, 0
        self._parts: list[tuple[Triples, Scores, Weights]] = []
        self._size = 0

    @property
    def limits(self) -> Floats:
        """The highest score, by relation, that a row must exceed: (R,)."""
        limits: Floats = np.minimum(self._all, self._each)
        return limits

    def add(self, triples: Triples, scores: Scores, weights: Weights) -> None:
        """Add rows: triples (m, 3), scores (m,), and weights (m,) above 0."""
        self.seen += np.bincount(triples[:, 1], weights, len(self.seen))
        self.squares += np.bincount(triples[:, 1], weights**2, len(self.seen))
        self.rows += len(scores)
        high = scores > self.limits[triples[:, 1]]
        self._parts.append((triples[high], scores[high], weights[high]))
        self._size += int(high.sum())
        self.held = max(self.held, self._size)
        if self._size > 2 * self._most:
            self.kept()

    def kept(self) -> tuple[Triples, Scores, Weights]:
        """Leave out the rows that do not belong to the top, and return the others: at most `most`."""
        if not self._parts:
            return np.empty((0, 3), dtype=np.int64), np.empty(0), np.empty(0)
        triples, scores, weights = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        if len(scores) > self._half:
            place = len(scores) - self._half - 1
            self._all = max(self._all, float(np.partition(scores, place)[place]))
        relations = triples[:, 1]
        order = np.lexsort((scores, relations))
        ends = np.cumsum(np.bincount(relations, minlength=len(self._own)))
        sizes = np.diff(ends, prepend=0)
        full = np.flatnonzero(sizes > self._own)
        self._each[full] = np.maximum(self._each[full], scores[order[ends[full] - self._own[full] - 1]])
        high = scores > self.limits[relations]
        found = triples[high], scores[high], weights[high]
        self._parts, self._size = [found], int(high.sum())
        return found
