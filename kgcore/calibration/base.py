"""The abstract class that every calibrator implements."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.sample import CalibrationSample


class Calibrator(ABC):
    """A map from raw scores to probabilities, non-decreasing in the score. Its input is never a probability.

    by_predicate  whether each predicate has its own map; if True, pass the predicates to `predict_of`
    """

    by_predicate: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        """Fit a calibrator to the sample. Raises FitError if the fit does not converge."""

    @abstractmethod
    def predict(self, scores: Scores) -> Probabilities:
        """Map scores (n,), any finite numbers, to probabilities (n,) in [0, 1]."""

    def predict_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        """Map scores (n,) of triples to probabilities (n,) in [0, 1].

        predicates  (n,) the predicates of the triples. If None, they are unknown, and the map that all predicates
                    share is used for every triple.
        """
        return self.predict(scores)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the fitted parameters as JSON values: numbers, lists and dictionaries."""

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Build the calibrator from the result of `parameters()`."""
        return cls(**parameters)
