"""A fitted ensemble: its members, its pool, the calibrator of the pooled log-odds, and the file format."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Scores
from kgcore.calibration.bound import BoundCalibrator
from kgcore.ensembles.base import Pool
from kgcore.errors import InputError, check_format
from kgcore.registries import POOLS

FORMAT = 3


@dataclass(frozen=True)
class Pooling:
    """A pool of m calibrated members. Its log-odds are the scores of an ensemble.

    members    (m) the fitted calibrator of each model
    low, high  the members' probabilities are clipped to [low, high] before pooling, 0 < low < high < 1
    name       registered name of the pool
    pool       the fitted pool
    """

    members: tuple[BoundCalibrator, ...]
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

    def fingerprint(self) -> str:
        """Return the sha256 of everything that the log-odds depend on."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the pool and its members as plain JSON values."""
        return {
            "members": [member.to_json() for member in self.members],
            "bounds": [self.low, self.high],
            "pool": self.name,
            "parameters": self.pool.parameters(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`. Raises InputError for an unknown pool and an unknown calibrator."""
        members = tuple(BoundCalibrator.from_json(member) for member in data["members"])
        low, high = data["bounds"]
        return cls(members, low, high, data["pool"], POOLS.get(data["pool"])(**data["parameters"]))


@dataclass(frozen=True)
class Ensemble:
    """A pool of m calibrated members, whose pooled log-odds are calibrated again.

    pooling       the members and their pool
    recalibrated  the calibrator of the pooled log-odds, bound to the fingerprint of `pooling`
    """

    pooling: Pooling
    recalibrated: BoundCalibrator

    @property
    def members(self) -> tuple[BoundCalibrator, ...]:
        """Return the fitted calibrator of each model (m)."""
        return self.pooling.members

    @property
    def name(self) -> str:
        """Return the registered name of the pool."""
        return self.pooling.name

    @property
    def negatives(self) -> str:
        """Return the kind of negatives that the ensemble was fitted on: ground_truth or synthetic."""
        return self.recalibrated.negatives

    @property
    def base_rate(self) -> float:
        """Return the share of true triples that its probabilities assume, in (0, 1)."""
        return self.recalibrated.base_rate

    @property
    def label(self) -> str:
        """Return its name in tables and metrics, such as `ground_truth.linear`."""
        return f"{self.negatives}.{self.name}"

    def predict(self, members: Floats, predicates: Ints | None = None) -> Probabilities:
        """Return the probabilities of the ensemble (n,), in [0, 1].

        members     (n, m) the members' probabilities, in [0, 1]
        predicates  (n,) the predicates of the triples; required if the recalibrator has a map for each
                    predicate

        Raises InputError for other shapes or values, and if required predicates are missing.
        """
        if predicates is None and self.recalibrated.calibrator.by_predicate:
            raise InputError(f"the ensemble {self.label} has a map for each predicate: pass the predicates, too")
        return self.recalibrated.predict(self.pooling.log_odds(members), self.recalibrated.model, predicates)

    def to_json(self) -> dict[str, Any]:
        """Return the ensemble as plain JSON values, which hold no executable code."""
        return {"format": FORMAT, **self.pooling.to_json(), "calibrator": self.recalibrated.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`.

        Raises InputError for another format, an unknown pool and an unknown calibrator.
        """
        check_format("ensembles", data, FORMAT)
        return cls(Pooling.from_json(data), BoundCalibrator.from_json(data["calibrator"]))
