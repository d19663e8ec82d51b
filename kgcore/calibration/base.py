"""The contract of a calibrator, and the binding of a fitted one to the model and data it was fitted on."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import check_base_rate, shift
from kgcore.errors import InputError, MismatchError
from kgcore.registries import BASELINES, CALIBRATORS

FORMAT = 3  # 1 knew one base rate only, 2 nothing of corruptions


class Calibrator(ABC):
    """A map from scores to probabilities, non-decreasing in the score. It takes scores, never probabilities.

    by_predicate  whether each predicate has a map of its own
    """

    by_predicate: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        """The calibrator of the sample. Raises FitError when the fit does not converge."""

    @abstractmethod
    def predict(self, scores: Scores) -> Probabilities:
        """Scores (n,), any finite numbers -> probabilities (n,) in [0, 1]."""

    def predict_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        """Scores (n,) of triples with these predicates (n,), where they are known -> probabilities (n,)."""
        return self.predict(scores)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What `from_parameters` builds the same calibrator from: numbers and lists, as JSON holds them."""

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """The calibrator with these parameters."""
        return cls(**parameters)


@dataclass(frozen=True)
class BoundCalibrator:
    """A fitted calibrator that knows what it belongs to and what its probabilities are about.

    name         registered name of the calibrator
    negatives    where its negatives came from: ground_truth, synthetic, or none for a baseline
    base_rate    share of positives that its probabilities are about
    model        fingerprint of the model whose scores it takes
    dataset      fingerprint of the graph it was fitted on
    fitted_at    share of positives, by weight, in the sample it was fitted on; None: base_rate
    corruptions  of synthetic negatives, what they were drawn from: strategy, sides, filtered. Its probabilities are
                 about triples that are false in that way.
    """

    name: str
    negatives: str
    base_rate: float
    model: str
    dataset: str
    calibrator: Calibrator
    fitted_at: float | None = None
    corruptions: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """Its name in tables and metrics: `ground_truth.platt`, or just `uncalibrated` for a baseline."""
        return self.name if self.negatives == "none" else f"{self.negatives}.{self.name}"

    def predict(self, scores: Scores, model: str, predicates: Ints | None = None) -> Probabilities:
        """Probabilities of scores (n,) of the model with that fingerprint, of triples with these predicates (n,).

        Raises MismatchError for another model's, InputError for a calibrator by predicate that is told none.
        """
        if model != self.model:
            raise MismatchError(
                f"the calibrator {self.label} is of model {self.model[:12]}, these scores are of model {model[:12]}"
            )
        if predicates is None and self.calibrator.by_predicate:
            raise InputError(f"the calibrator {self.label} has a map for each predicate: tell it the predicates")
        probabilities = self.calibrator.predict_of(scores, predicates)
        if self.fitted_at is None:
            return probabilities
        return shift(probabilities, self.fitted_at, self.base_rate)

    def at(self, base_rate: float) -> Self:
        """The same calibrator, its probabilities about another base rate in (0, 1): see `shift`. Nothing is fitted.

        What was shifted before is shifted from where it was fitted, so that there and back is the same calibrator.

        Any calibrator's probabilities are taken to be about its base rate, a baseline's too. Raises InputError for a
        base rate out of range.
        """
        check_base_rate("base_rate", base_rate)
        fitted_at = self.base_rate if self.fitted_at is None else self.fitted_at
        return replace(self, base_rate=base_rate, fitted_at=None if base_rate == fitted_at else fitted_at)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: no code travels with a calibrator."""
        return {
            "format": FORMAT,
            "calibrator": self.name,
            "negatives": self.negatives,
            "base_rate": self.base_rate,
            "fitted_at": self.fitted_at,
            "corruptions": self.corruptions,
            "model": self.model,
            "dataset": self.dataset,
            "parameters": self.calibrator.parameters(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The calibrator `to_json` wrote, now or in an earlier format. Raises InputError for another format or an
        unknown calibrator."""
        if data.get("format") not in range(1, FORMAT + 1):
            raise InputError(f"the calibrator has format {data.get('format')!r}: this version reads 1 to {FORMAT}")
        registry = BASELINES if data["calibrator"] in BASELINES.names() else CALIBRATORS
        return cls(
            name=data["calibrator"],
            negatives=data["negatives"],
            base_rate=data["base_rate"],
            model=data["model"],
            dataset=data["dataset"],
            calibrator=registry.get(data["calibrator"]).from_parameters(data["parameters"]),
            fitted_at=data.get("fitted_at"),
            corruptions=data.get("corruptions"),
        )
