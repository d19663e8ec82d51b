"""A pool of calibrated models: its file format, and the models as one scorer, whose scores are the pooled log-odds."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Scores, Triples
from kgcore.calibrate.calibrated import Calibrated
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.scorer import PointwiseScorer
from kgcore.errors import InputError
from kgcore.registries import POOLS, STORED
from kgcore.scores.table import ScoreTable
from kgcore.wings.ensembles.pools import Pool

if TYPE_CHECKING:
    import torch

    from kgcore.embed.models.trained import TrainedModel


@STORED.register("pool")
@dataclass(frozen=True)
class Pooling:
    """A pool of m calibrated members. Its log-odds are the scores of an ensemble.

    members    (m) the fitted calibrator of each model
    low, high  the members' probabilities are clipped to [low, high] before pooling, 0 < low < high < 1
    name       registered name of the pool
    pool       the fitted pool
    """

    members: tuple[Calibrated, ...]
    low: float
    high: float
    name: str
    pool: Pool

    @property
    def models(self) -> tuple[str, ...]:
        """Return the fingerprints (m) of the members' models."""
        return tuple(member.model for member in self.members)

    def member_probabilities(
        self, scores: Sequence[Scores], models: Sequence[str], predicates: Ints | None = None
    ) -> Floats:
        """Return the probabilities of the members (n, m), in [0, 1].

        scores      for each member the scores (n,) of its model
        models      for each member the fingerprint of the model that gave these scores
        predicates  (n,) the predicates of the triples; required if a member has a map for each predicate

        Raises MismatchError if a fingerprint in `models` is not the fingerprint of the member's model, InputError if
        required predicates are missing.
        """
        pairs = zip(self.members, scores, models, strict=True)
        return np.stack([member.predict(own, model, predicates) for member, own, model in pairs], axis=1)

    def log_odds(self, members: Floats) -> Floats:
        """Pool the members' probabilities (n, m) in [0, 1] into log-odds (n,). Raises InputError for other values.

        The log-odds of a row are the same, to the last bit, whichever rows are pooled with it.
        """
        q = np.asarray(members, dtype=np.float64)
        if q.ndim != 2 or q.shape[1] != len(self.members) or not ((q >= 0) & (q <= 1)).all():
            raise InputError(
                f"members have shape {q.shape}: probabilities (n, {len(self.members)}) in [0, 1] are needed"
            )
        return self.pool.log_odds(q.clip(self.low, self.high))

    def scorer(self, models: "Sequence[TrainedModel]", graph: KnowledgeGraph) -> "PooledModel":
        """Return the members' models as one scorer, whose scores are the pooled log-odds."""
        return PooledModel(self, tuple(models))

    def fingerprint(self) -> str:
        """Return the sha256 of everything that the log-odds depend on."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the pool and its members as plain JSON values."""
        return {
            "scorer": "pool",
            "members": [member.to_json() for member in self.members],
            "bounds": [self.low, self.high],
            "pool": self.name,
            "parameters": self.pool.parameters(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`. Raises InputError for an unknown pool and an unknown calibrator."""
        members = tuple(Calibrated.from_json(member) for member in data["members"])
        low, high = data["bounds"]
        return cls(members, low, high, data["pool"], POOLS.get(data["pool"])(**data["parameters"]))


def pooling_of(ensemble: Calibrated) -> Pooling:
    """Return the pool of an ensemble."""
    assert isinstance(ensemble.scorer, Pooling)
    return ensemble.scorer


@dataclass(frozen=True)
class PooledModel(PointwiseScorer):
    """The score of a triple is the log-odds that the pool makes of the members' probabilities.

    pooling  the members' calibrators, and their pool
    members  (m) the members' models
    """

    pooling: Pooling
    members: tuple["TrainedModel", ...]

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
        return sum(parts, np.zeros(1))

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
