"""Searches all pairs of subjects and objects of one predicate for the best ones, block by block."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.config.choices import PER
from kgcore.graph import TripleIndex
from kgcore.models.scorer import Scorer
from kgcore.prediction.best import Best, best_of, nth_highest

ALL, SUBJECT, OBJECT = PER


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
    best = Best(search.top or len(subjects) * len(search.objects), slots)
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
    found = objects[order][place] == facts
    left_out[rows[found], order[place[found]]] = True
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
    cuts: Floats = np.partition(low, entries - search.top, axis=axis).take([entries - search.top], axis=axis)
    return cuts
