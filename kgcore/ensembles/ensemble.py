"""A fitted ensemble: its members, its pool, the calibrator of the pooled log-odds, and the file format."""

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
    """A pool of m calibrated members, whose pooled log-odds are calibrated again.

    members       (m) the fitted calibrator of each model
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
        """Return the kind of negatives that the ensemble was fitted on: ground_truth or synthetic."""
        return self.members[0].negatives

    @property
    def base_rate(self) -> float:
        """Return the share of positives, by weight, in the sample that the ensemble was fitted on."""
        return self.members[0].base_rate

    @property
    def label(self) -> str:
        """Return its name in tables and metrics, such as `ground_truth.linear`."""
        return f"{self.negatives}.{self.name}"

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

    def predict(self, members: Floats, predicates: Ints | None = None) -> Probabilities:
        """Return the probabilities of the ensemble (n,), in [0, 1].

        members     (n, m) the members' probabilities, in [0, 1]
        predicates  (n,) the predicates of the triples; required if the recalibrator has a map for each
                    predicate

        Raises InputError for other shapes or values, and if required predicates are missing.
        """
        q = np.asarray(members, dtype=np.float64)
        if q.ndim != 2 or q.shape[1] != len(self.members) or not ((q >= 0) & (q <= 1)).all():
            raise InputError(
                f"members have shape {q.shape}: probabilities (n, {len(self.members)}) in [0, 1] are needed"
            )
        if predicates is None and self.recalibrated.by_predicate:
            raise InputError(f"the ensemble {self.label} has a map for each predicate: pass the predicates, too")
        return self.recalibrated.calibrate_of(self.pool.log_odds(q.clip(self.low, self.high)), predicates)

    def to_json(self) -> dict[str, Any]:
        """Return the ensemble as plain JSON values, which hold no executable code."""
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

        Raises InputError for an unknown format, an unknown pool and an unknown calibrator.
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
