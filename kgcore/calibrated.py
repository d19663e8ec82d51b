"""A calibrated model for prediction: names in, scores and probabilities out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Probabilities, Scores
from kgcore.calibration.bound import BoundCalibrator
from kgcore.graph import KnowledgeGraph

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel


@dataclass(frozen=True)
class CalibratedModel:
    """An embedding model, a calibrator of its scores, and the graph that names its entities and predicates."""

    trained: "TrainedModel"
    calibrator: BoundCalibrator
    graph: KnowledgeGraph

    def predict(self, names: pd.DataFrame, base_rate: float | None = None) -> tuple[Scores, Probabilities, Bools]:
        """Scores (n,), probabilities (n,) in [0, 1], and a mask (n,) of the triples whose names are all known.

        names      n rows, columns subject, predicate, object. A row with an unknown name has score and probability NaN
        base_rate  share of positives, in (0, 1), that the probabilities assume; None = the calibrator's base rate. The
                   calibrator is not fitted again: logit q becomes
                   logit q + logit(base_rate) - logit(the calibrator's base rate)

        Raises MismatchError if the calibrator belongs to another model, and InputError if the base rate is out of
        range.
        """
        calibrator = self.calibrator if base_rate is None else self.calibrator.at(base_rate)
        triples, known = self.graph.number(names)
        scores, probabilities = np.full(len(names), np.nan), np.full(len(names), np.nan)
        scores[known] = self.trained.score(triples[known])
        probabilities[known] = calibrator.predict(scores[known], self.trained.fingerprint(), triples[known, 1])
        return scores, probabilities, known

    def fitted_on(self, names: pd.DataFrame) -> Bools:
        """Mask (n,) of the triples in train or valid: the model or the calibrator was fitted to them."""
        triples, known = self.graph.number(names)
        fitted = np.zeros(len(names), dtype=bool)
        seen = self.graph.index(self.graph.train.triples, self.graph.valid.triples)
        fitted[known] = seen.contains(triples[known])
        return fitted
