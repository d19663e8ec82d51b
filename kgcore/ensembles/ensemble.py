"""An ensemble of calibrated models: the members, the pool, the calibrator of the pool, and the file format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.bound import BoundCalibrator, stored_class
from kgcore.ensembles.base import Pool
from kgcore.errors import InputError
from kgcore.registries import POOLS

FORMAT = 1


@dataclass(frozen=True)
class Ensemble:
    """A pool of m calibrated members, calibrated again.

    members       (m) one calibrator for each model
    low, high     the members' probabilities are clipped to [low, high] before pooling, 0 < low < high < 1
    name          registered name of the pool
    pool          the fitted pool
    recalibrator  registered name of the calibrator of the pooled log-odds
    recalibrated  the fitted calibrator of the pooled log-odds
    """

    members: tuple[BoundCalibrator, ...]
    low: float
    high: float
    name: str
    pool: Pool
    recalibrator: str
    recalibrated: Calibrator

    @property
    def negatives(self) -> str:
        """Where the negatives came from: ground_truth or synthetic."""
        return self.members[0].negatives

    @property
    def base_rate(self) -> float:
        """Share of positives, by weight, in the sample it was fitted on."""
        return self.members[0].base_rate

    @property
    def label(self) -> str:
        """Its name in tables and metrics: `ground_truth.linear`."""
        return f"{self.negatives}.{self.name}"

    def member_probabilities(
        self, scores: Sequence[Scores], models: Sequence[str], predicates: Ints | None = None
    ) -> Floats:
        """The members' probabilities (n, m), in [0, 1].

        scores      for each member the scores (n,) of its model
        models      for each member the fingerprint of the model that gave these scores
        predicates  (n,) the predicates of the triples; needed where a member has a map for each predicate

        Raises MismatchError if a fingerprint is not that of the member's model, InputError if needed predicates
        are missing.
        """
        pairs = zip(self.members, scores, models, strict=True)
        return np.stack([member.predict(own, model, predicates) for member, own, model in pairs], axis=1)

    def predict(self, members: Floats, predicates: Ints | None = None) -> Probabilities:
        """The ensemble's probabilities (n,), in [0, 1].

        members     (n, m) the members' probabilities, in [0, 1]
        predicates  (n,) the predicates of the triples; needed where the recalibrator has a map for each predicate

        Raises InputError for other shapes or values, and when needed predicates are missing.
        """
        q = np.asarray(members, dtype=np.float64)
        if q.ndim != 2 or q.shape[1] != len(self.members) or not ((q >= 0) & (q <= 1)).all():
            raise InputError(
                f"members have shape {q.shape}: probabilities (n, {len(self.members)}) in [0, 1] are needed"
            )
        if predicates is None and self.recalibrated.by_predicate:
            raise InputError(f"the ensemble {self.label} has a map for each predicate: pass the predicates, too")
        return self.recalibrated.predict_of(self.pool.log_odds(q.clip(self.low, self.high)), predicates)

    def to_json(self) -> dict[str, Any]:
        """The ensemble as plain JSON, without code."""
        return {
            "format": FORMAT,
            "members": [member.to_json() for member in self.members],
            "bounds": [self.low, self.high],
            "pool": self.name,
            "parameters": self.pool.parameters(),
            "recalibrator": self.recalibrator,
            "recalibration": self.recalibrated.parameters(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the ensemble that `to_json` wrote.

        Raises InputError for another format, an unknown pool and an unknown calibrator.
        """
        if data.get("format") != FORMAT:
            raise InputError(f"the ensemble has format {data.get('format')!r}: this version reads format {FORMAT}")
        low, high = data["bounds"]
        return cls(
            members=tuple(BoundCalibrator.from_json(member) for member in data["members"]),
            low=low,
            high=high,
            name=data["pool"],
            pool=POOLS.get(data["pool"])(**data["parameters"]),
            recalibrator=data["recalibrator"],
            recalibrated=stored_class(data["recalibrator"]).from_parameters(data["recalibration"]),
        )
