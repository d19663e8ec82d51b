"""A calibrated model as those see it who ask for probabilities: names in, scores and probabilities out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Probabilities, Scores
from kgcore.calibration.base import BoundCalibrator
from kgcore.graph import KnowledgeGraph

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel


@dataclass(frozen=True)
class CalibratedModel:
    """An embedding model, a calibrator of its scores, and the graph whose names it knows."""

    trained: "TrainedModel"
    calibrator: BoundCalibrator
    graph: KnowledgeGraph

    def predict(self, names: pd.DataFrame, base_rate: float | None = None) -> tuple[Scores, Probabilities, Bools]:
        """Scores (n,) and probabilities (n,) of triples of names (columns subject, predicate, object), and whether each
        can be judged (n,); of a triple with an unknown entity or predicate both are NaN.

        base_rate  share of positives in (0, 1) that the probabilities are to be about, instead of the calibrator's,
                   which is not fitted anew: logit q + logit base_rate - logit (the calibrator's)

        Raises MismatchError when the calibrator belongs to another model, InputError for a base rate that cannot be.
        """
        calibrator = self.calibrator if base_rate is None else self.calibrator.at(base_rate)
        triples, known = self.graph.number(names)
        scores, probabilities = np.full(len(names), np.nan), np.full(len(names), np.nan)
        scores[known] = self.trained.score(triples[known])
        probabilities[known] = calibrator.predict(scores[known], self.trained.fingerprint(), triples[known, 1])
        return scores, probabilities, known

    def fitted_on(self, names: pd.DataFrame) -> Bools:
        """Whether each triple of names stands in train or valid, on which the model or the calibrator was fitted."""
        triples, known = self.graph.number(names)
        fitted = np.zeros(len(names), dtype=bool)
        seen = self.graph.index(self.graph.train.triples, self.graph.valid.triples)
        fitted[known] = seen.contains(triples[known])
        return fitted
