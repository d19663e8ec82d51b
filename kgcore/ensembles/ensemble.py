"""An ensemble: calibrated models, the pool of their probabilities, and the calibration of the pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Scores
from kgcore.calibration.base import BoundCalibrator, Calibrator
from kgcore.ensembles.base import Pool
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS, POOLS

FORMAT = 1


@dataclass(frozen=True)
class Ensemble:
    """A pool of calibrated members (m), calibrated again.

    members       a calibrator for each model
    low, high     what members' probabilities are held between before they are pooled: no member is ever certain
    name          registered name of the pool
    pool          the fitted pool
    recalibrator  registered name of the calibrator of the pooled log-odds
    recalibrated  that calibrator, fitted
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
        """Each member's probabilities (n, m) of its model's scores (n,); `models` are the fingerprints of the models,
        `predicates` (n,) those of the triples.

        Raises MismatchError where one is another member's model, InputError where members are calibrated by predicate
        and are told none.
        """
        pairs = zip(self.members, scores, models, strict=True)
        return np.stack([member.predict(own, model, predicates) for member, own, model in pairs], axis=1)

    def predict(self, members: Floats, predicates: Ints | None = None) -> Probabilities:
        """Members' probabilities (n, m) -> the ensemble's (n,), both in [0, 1]; `predicates` (n,) of the triples.

        Raises InputError for other values, and where the recalibrator is one by predicate and is told none.
        """
        q = np.asarray(members, dtype=np.float64)
        if q.ndim != 2 or q.shape[1] != len(self.members) or not ((q >= 0) & (q <= 1)).all():
            raise InputError(f"members' probabilities (n, {len(self.members)}) in [0, 1] are needed")
        if predicates is None and self.recalibrated.by_predicate:
            raise InputError(f"the ensemble {self.label} has a map for each predicate: tell it the predicates")
        return self.recalibrated.predict_of(self.pool.log_odds(q.clip(self.low, self.high)), predicates)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: no code travels with it."""
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
        """The ensemble `to_json` wrote. Raises InputError for another format, an unknown pool or calibrator."""
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
            recalibrated=CALIBRATORS.get(data["recalibrator"]).from_parameters(data["recalibration"]),
        )
