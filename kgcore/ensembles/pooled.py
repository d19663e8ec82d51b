"""The models of an ensemble as one scorer: the score of a triple is the pooled log-odds of its members."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Scores, Triples
from kgcore.ensembles.ensemble import Pooling
from kgcore.models.scorer import Scorer
from kgcore.score_table import ScoreTable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from kgcore.models.trained import TrainedModel

TRIPLES_AT_ONCE = 2**18  # scored triples of a block


@dataclass(frozen=True)
class PooledModel(Scorer):
    """The score of a triple is the log-odds that the pool makes of the members' probabilities.

    Every method scores triples with `score`, also if it ranks many of them. The calibrator of a member may be steep.
    Then a difference in the last bits of a member's score could change the rank of a triple.

    pooling  the members' calibrators, and their pool
    members  (m) the members' models
    """

    pooling: Pooling
    members: tuple["TrainedModel", ...]

    is_exact = True

    @property
    def pool(self) -> str:
        return self.pooling.name

    @property
    def sizes(self) -> tuple[int, int]:
        return self.members[0].sizes

    def score(self, triples: Triples) -> Scores:
        scores = [member.score(triples) for member in self.members]
        return self.pooling.log_odds(self.pooling.member_probabilities(scores, self._models, triples[:, 1]))

    def fingerprint(self) -> str:
        return self.pooling.fingerprint()

    def to(self, device: "torch.device") -> Self:
        return replace(self, members=tuple(member.to(device) for member in self.members))

    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[tuple[slice, slice, Floats]]:
        for left in range(0, len(objects), TRIPLES_AT_ONCE):
            columns = slice(left, min(left + TRIPLES_AT_ONCE, len(objects)))
            for rows in _blocks(len(subjects), columns.stop - columns.start):
                yield rows, columns, self._scores(subjects[rows], predicate, objects[columns])

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

    def cosines(self, entity: int) -> Floats:
        """Return the mean of the members' cosines, with the weights of the pool."""
        shares = self.pooling.pool.shares
        parts = (share * member.cosines(entity) for share, member in zip(shares, self.members, strict=True))
        total: Floats = sum(parts, np.zeros(1))
        return total

    def _scores(self, subjects: Ints, predicate: int, objects: Ints) -> Floats:
        """Return the scores (n, m) of all pairs of subjects (n,) and objects (m,)."""
        s, o = np.repeat(subjects, len(objects)), np.tile(objects, len(subjects))
        scores = self.score(np.stack([s, np.full(len(s), predicate), o], axis=1))
        return scores.reshape(len(subjects), len(objects))

    @cached_property
    def _models(self) -> tuple[str, ...]:
        return tuple(member.fingerprint() for member in self.members)


def pooled_table(model: PooledModel, tables: Sequence[ScoreTable]) -> ScoreTable:
    """Return the table with the scores of an ensemble.

    tables  (m) the score table of each member, all of the same rows

    Raises MismatchError if a table has the scores of another model.
    """
    first = tables[0]
    scores, prints = [table.scores for table in tables], [table.model for table in tables]
    members = model.pooling.member_probabilities(scores, prints, first.triples[:, 1])
    return replace(first, scores=model.pooling.log_odds(members), model=model.fingerprint())


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Divide rows into blocks of at most TRIPLES_AT_ONCE pairs, but of at least one row."""
    high = max(1, TRIPLES_AT_ONCE // max(columns, 1))
    for start in range(0, rows, high):
        yield slice(start, min(start + high, rows))
