"""A fitted calibrator of scores, bound to the scorer that gave them and to the rows that it was fitted on."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Self

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.bound import BoundCalibrator
from kgcore.errors import InputError, MismatchError

FORMAT = 1
UNKNOWN = -1  # number of a relation without labelled rows


def scorer_fingerprint(scorer: str, scale: str) -> str:
    """Return a hash of the name of a scorer and the scale of its scores. It stands for the model of a calibrator."""
    return hashlib.sha256(f"{scale}\n{scorer}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class ScoreCalibrator:
    """A calibrator of the scores of one scorer.

    scorer     name of the scorer
    scale      any, or probability: then the calibrator takes log-odds of the scores
    relations  names of the relations that it knows, in the order of their numbers
    bound      the fitted calibrator. Its model is `scorer_fingerprint`, its dataset the fingerprint of the rows
    """

    scorer: str
    scale: str
    relations: tuple[str, ...]
    bound: BoundCalibrator

    def check_scorer(self, scorer: str) -> None:
        """Raise MismatchError if scores come from another scorer."""
        if scorer != self.scorer:
            raise MismatchError(
                f"the calibrator {self.bound.name} belongs to the scorer {self.scorer!r}, but the scores are of "
                f"{scorer!r}: if they are of the same scorer, give --scorer {self.scorer}"
            )

    def predict(self, scores: Scores, relations: Ints | None) -> tuple[Probabilities, Probabilities, Probabilities]:
        """Return probabilities (n,) and the ends (n,) of their 95 % confidence intervals, all in [0, 1].

        scores     (n,) on the scale of the calibrator; log-odds if it is `probability`
        relations  (n,) their numbers, UNKNOWN if unknown; None: no relations

        The intervals are those of `BoundCalibrator.interval`. Raises InputError if relations are missing and needed.
        """
        q = self.bound.predict(scores, scorer_fingerprint(self.scorer, self.scale), relations)
        return q, *self.bound.interval(scores, q, relations)

    def at(self, base_rate: float) -> Self:
        """Return the same calibrator for another base rate in (0, 1): see `BoundCalibrator.at`."""
        return replace(self, bound=self.bound.at(base_rate))

    def to_json(self) -> dict[str, Any]:
        """Return the calibrator as plain JSON."""
        names = {"scorer": self.scorer, "scale": self.scale, "relations": list(self.relations)}
        return {"format": FORMAT, **names, "calibrator": self.bound.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the calibrator that `to_json` wrote. Raises InputError for an unknown format."""
        if data.get("format") != FORMAT:
            raise InputError(f"the calibrator of scores has format {data.get('format')!r}: this version reads {FORMAT}")
        bound = BoundCalibrator.from_json(data["calibrator"])
        return cls(data["scorer"], data["scale"], tuple(data["relations"]), bound)
