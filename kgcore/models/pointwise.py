"""Scorers that rank with the scores of single triples."""

from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.models.scorer import Bounds, Scorer

if TYPE_CHECKING:
    from torch import Tensor

TRIPLES_AT_ONCE = 2**18  # scored triples of a block


class PointwiseScorer(Scorer, ABC):
    """A scorer whose every method scores triples with `score`, also if it ranks many of them.

    The calibrator of a member of an ensemble, or a combiner of evidence, may be steep. Then a difference in the last
    bits of a model's score could change the rank of a triple.
    """

    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
        for left in range(0, len(objects), TRIPLES_AT_ONCE):
            columns = slice(left, min(left + TRIPLES_AT_ONCE, len(objects)))
            for rows in _blocks(len(subjects), columns.stop - columns.start):
                scores = self._scores(subjects[rows], predicate, objects[columns])
                yield rows, columns, scores, scores

    def answers(
        self, predicate: int, entities: Ints, candidates: Ints, *, as_objects: bool
    ) -> Iterator[tuple[slice, "Tensor"]]:
        import torch

        for rows in _blocks(len(entities), len(candidates)):
            own = entities[rows]
            scores = (
                self._scores(own, predicate, candidates)
                if as_objects
                else self._scores(candidates, predicate, own).T.copy()
            )
            yield rows, torch.from_numpy(scores)

    def alternatives(self, triple: Triples) -> tuple["Tensor", "Tensor"]:
        import torch

        [[s, p, o]] = triple
        every, subject, object_ = np.arange(self.sizes[0]), np.array([s]), np.array([o])
        as_subjects, as_objects = self._scores(every, p, object_).T.copy(), self._scores(subject, p, every)
        return torch.from_numpy(as_subjects), torch.from_numpy(as_objects)

    def _scores(self, subjects: Ints, predicate: int, objects: Ints) -> Floats:
        """Return the scores (n, m) of all pairs of subjects (n,) and objects (m,)."""
        s, o = np.repeat(subjects, len(objects)), np.tile(objects, len(subjects))
        scores = self.score(np.stack([s, np.full(len(s), predicate), o], axis=1))
        return scores.reshape(len(subjects), len(objects))


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Divide rows into blocks of at most TRIPLES_AT_ONCE pairs, but of at least one row."""
    high = max(1, TRIPLES_AT_ONCE // max(columns, 1))
    for start in range(0, rows, high):
        yield slice(start, min(start + high, rows))
