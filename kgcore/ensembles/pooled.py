"""The models of an ensemble as one scorer: the score of a triple is the pooled log-odds of its members."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Floats, Scores, Triples
from kgcore.ensembles.ensemble import Pooling
from kgcore.models.pointwise import PointwiseScorer
from kgcore.score_table import ScoreTable

if TYPE_CHECKING:
    import torch

    from kgcore.models.trained import TrainedModel


@dataclass(frozen=True)
class PooledModel(PointwiseScorer):
    """The score of a triple is the log-odds that the pool makes of the members' probabilities.

    pooling  the members' calibrators, and their pool
    members  (m) the members' models
    """

    pooling: Pooling
    members: tuple["TrainedModel", ...]

    @property
    def pool(self) -> str:
        return self.pooling.name

    @property
    def sizes(self) -> tuple[int, int]:
        return self.members[0].sizes

    @property
    def embedding_models(self) -> tuple["TrainedModel", ...]:
        return self.members

    def score(self, triples: Triples) -> Scores:
        scores = [member.score(triples) for member in self.members]
        return self.pooling.log_odds(self.pooling.member_probabilities(scores, self._models, triples[:, 1]))

    def fingerprint(self) -> str:
        return self.pooling.fingerprint()

    def to(self, device: "torch.device") -> Self:
        return replace(self, members=tuple(member.to(device) for member in self.members))

    def cosines(self, entity: int) -> Floats:
        """Return the mean of the members' cosines, with the weights of the pool."""
        shares = self.pooling.pool.shares
        parts = (share * member.cosines(entity) for share, member in zip(shares, self.members, strict=True))
        total: Floats = sum(parts, np.zeros(1))
        return total

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
