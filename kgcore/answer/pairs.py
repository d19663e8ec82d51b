"""Searches all pairs of subjects and objects of one predicate for the best ones, block by block.

The best are the N highest scores overall, of each subject, or of each object.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.question import Question
from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.config.base import PER
from kgcore.data.graph import TripleIndex
from kgcore.embed.models.scorer import Scorer

ALL, SUBJECT, OBJECT = PER
MOST_ROWS = 2**18  # rows of a stream, beyond which it is pruned


@dataclass(frozen=True)
class PairBlock:
    """All pairs of some subjects and objects of one predicate.

    subjects, objects  distinct entities (n,) and (m,), ascending
    """

    predicate: int
    subjects: Ints
    objects: Ints

    def joined(self, other: "PairBlock") -> "PairBlock":
        """Return all pairs of the subjects of both blocks and the objects of both. They have the same predicate."""
        subjects, objects = np.union1d(self.subjects, other.subjects), np.union1d(self.objects, other.objects)
        return PairBlock(self.predicate, subjects, objects)

    def holds(self, triples: Triples) -> Bools:
        """Return which triples (k, 3) are pairs of the block."""
        in_block: Bools = (
            (triples[:, 1] == self.predicate)
            & np.isin(triples[:, 0], self.subjects)
            & np.isin(triples[:, 2], self.objects)
        )
        return in_block


@dataclass(frozen=True)
class PairSearch:
    """A question about all pairs of subjects and objects of one predicate.

    subjects, objects  distinct entities (n,) and (m,)
    predicate          the predicate of all triples
    top                the number of best pairs to keep; 0 = all
    per                whether `top` counts `all` pairs, those of each `subject` or those of each `object`
    lowest             the lowest score to keep; -inf = all
    leave_out          facts that are left out; None = none
    reflexive          whether an entity is paired with itself, if it is a subject and an object
    """

    subjects: Ints
    objects: Ints
    predicate: int
    top: int = 0
    per: str = ALL
    lowest: float = -np.inf
    leave_out: TripleIndex | None = None
    reflexive: bool = True

    def triples(self, pairs: Ints) -> Triples:
        """Return pairs (n, 2) as triples (n, 3)."""
        return np.stack([pairs[:, 0], np.full(len(pairs), self.predicate), pairs[:, 1]], axis=1)

    def groups(self, pairs: Ints) -> Ints:
        """Return the entity (n,) of each pair within whose pairs `top` counts; 0 if it counts all pairs."""
        if self.per == ALL:
            return np.zeros(len(pairs), dtype=np.int64)
        return pairs[:, 0 if self.per == SUBJECT else 1]


def search_pairs(trained: Scorer, search: PairSearch, subjects: Ints) -> Ints:
    """Return the pairs (m, 2) of some subjects that can be in the result of a search.

    subjects  (n,) some of `search.subjects`: one part of the work

    The search has bounds of the scores only. So pairs slightly below the cut are returned, too: `best_pairs` decides.
    No pair of the result is lost. Memory: some tiles of scores, and the best so far.
    """
    slots = {ALL: 1, SUBJECT: len(subjects), OBJECT: len(search.objects)}[search.per]
    best = BestPairs(search.top or len(subjects) * len(search.objects), slots)
    for rows, columns, low, high in trained.tiles(subjects, search.predicate, search.objects):
        high[_left_out(search, subjects[rows], columns)] = -np.inf
        low = np.minimum(low, high)
        groups = _slots(search.per, rows, columns, low.shape)
        cuts = np.maximum(best.cuts[groups], search.lowest)
        if search.top:
            cuts = np.maximum(cuts, _cuts_of_tile(low, search))
        i, j = np.nonzero(np.isfinite(high) & (high >= cuts))
        pairs = np.stack([subjects[rows][i], search.objects[columns][j]], axis=1)
        best.add(low[i, j], high[i, j], pairs, np.broadcast_to(groups, low.shape)[i, j])
    return best.pairs()


def best_pairs(trained: Scorer, search: PairSearch, pairs: Ints) -> Triples:
    """Return the triples (k, 3) of a search's result, from the pairs (m, 2) that `search_pairs` found in its parts.

    They are chosen by the scores of `Scorer.score`, and sorted by group, then from the highest score down. So
    the result does not depend on how the search was divided.
    """
    scores = trained.score(search.triples(pairs))
    kept = scores >= search.lowest
    scores, pairs = scores[kept], pairs[kept]
    rows = best_of(scores, pairs, search.groups(pairs), search.top or max(1, len(pairs)))
    return search.triples(pairs[rows])


def _left_out(search: PairSearch, subjects: Ints, columns: slice) -> Bools:
    """Return which pairs (n, m) of a tile are facts or reflexive pairs that are left out."""
    objects = search.objects[columns]
    left_out = np.zeros((len(subjects), len(objects)), dtype=bool)
    if not search.reflexive:
        left_out |= subjects[:, None] == objects
    if search.leave_out is None:
        return left_out
    rows, facts = search.leave_out.objects(subjects, np.full(len(subjects), search.predicate))
    order = np.argsort(objects)
    place = np.searchsorted(objects[order], facts).clip(max=len(objects) - 1)
    is_object = objects[order][place] == facts
    left_out[rows[is_object], order[place[is_object]]] = True
    return left_out


def _slots(per: str, rows: slice, columns: slice, shape: tuple[int, ...]) -> Ints:
    """Return the number of the group of each entry of a tile, as an array that broadcasts to its shape."""
    if per == SUBJECT:
        return np.arange(rows.start, rows.start + shape[0])[:, None]
    if per == OBJECT:
        return np.arange(columns.start, columns.start + shape[1])[None, :]
    return np.zeros((1, 1), dtype=np.int64)


def _cuts_of_tile(low: Floats, search: PairSearch) -> Floats:
    """Return the cut of the pairs of a tile alone: the `top` highest lower bounds of a group are not below it."""
    axis = {ALL: None, SUBJECT: 1, OBJECT: 0}[search.per]
    entries = low.size if axis is None else low.shape[axis]
    if entries <= search.top:
        return np.array([[-np.inf]])
    if axis is None:
        return nth_highest(low.ravel(), np.zeros(0, dtype=np.int64), search.top, 1).reshape(1, 1)
    return np.partition(low, entries - search.top, axis=axis).take([entries - search.top], axis=axis)


def best_answers_to(question: Question, model: CalibratedModel, top: int) -> Triples:
    """Return the `top` best answers (n, 3) to (s, p, ?) or (?, p, o), the highest score first.

    question  from `Question.of_query`

    All entities are candidates but the given one itself. Known facts are among the answers.
    """
    assert question.predicate is not None
    every = np.arange(len(model.graph.entities))
    subjects, objects = (every if given is None else np.array([given]) for given in (question.subject, question.object))
    search = PairSearch(subjects, objects, question.predicate, top, reflexive=False)
    return best_pairs(model.trained, search, search_pairs(model.trained, search, subjects))


class BestPairs:
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
        of_tied = groups[tied]
        return tied[np.arange(len(tied)) - np.searchsorted(of_tied, of_tied) >= (self._top - above)[of_tied]]


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
