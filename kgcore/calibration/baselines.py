"""Baselines: maps from scores to probabilities that fit no curve to the labels. Calibrators are compared with them.

They implement the class `Calibrator`, but have a separate registry, so that no setting can choose one as a calibrator.
"""

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import BASELINES


@BASELINES.register("uncalibrated")
class Uncalibrated(Calibrator):
    """The usual probability without calibration, q = 1 / (1 + exp(-f)) for a score f (paper, section 5)."""

    def fit_sample(self, sample: CalibrationSample) -> Self:
        return self.set_fitted()

    def calibrate(self, scores: Scores) -> Probabilities:
        return expit(scores)


@BASELINES.register("constant")
@BASELINES.register("base_rate")
class Constant(Calibrator):
    """The best constant: the weighted mean of the labels, which is the base rate or the mean confidence.

    On data with base rate alpha, the Brier score of the constant alpha is alpha (1 - alpha). A useful calibrator has a
    lower Brier score (paper, section 5.2).

    mean_  in [0, 1]
    """

    fitted: ClassVar[tuple[str, ...]] = ("mean",)
    mean_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        return self.set_fitted(mean=sample.base_rate)

    def calibrate(self, scores: Scores) -> Probabilities:
        return np.full(len(scores), self.mean_)


@BASELINES.register("constant_by_relation")
class ConstantByRelation(Constant):
    """The best constant by relation; for a relation without rows in the sample, the best constant.

    mean_       in [0, 1]
    relations_  position of the predicate -> the mean confidence of its triples
    """

    by_predicate = True
    fitted = ("mean", "relations")
    relations_: dict[int, float]

    def fit_sample(self, sample: CalibrationSample) -> Self:
        present = () if sample.predicates is None else np.unique(sample.predicates).tolist()
        own = {predicate: sample.predicates == predicate for predicate in present}
        means = {
            predicate: float(np.average(sample.labels[rows], weights=sample.weights[rows]))
            for predicate, rows in own.items()
        }
        return self.set_fitted(mean=sample.base_rate, relations=means)

    def calibrate_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        if predicates is None:
            return self.calibrate(scores)
        q = self.calibrate(scores)
        for predicate, mean in self.relations_.items():
            q[predicates == predicate] = mean
        return q

    def parameters(self) -> dict[str, Any]:
        relations = {str(predicate): mean for predicate, mean in self.relations_.items()}
        return super().parameters() | {"relations": relations}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        relations = {int(predicate): float(mean) for predicate, mean in parameters["relations"].items()}
        return cls().set_fitted(mean=parameters["mean"], relations=relations)
