"""Reliability of each relation: probabilities can be right on average and wrong for every relation."""

from dataclasses import dataclass

import numpy as np

from kgcore.evaluation.predictions import Predictions
from kgcore.metrics.proper import brier
from kgcore.metrics.reliability import wilson


@dataclass(frozen=True)
class RelationFit:
    """How one calibrator fits one relation.

    predicted  weighted mean probability
    brier      Brier score
    """

    predicted: float
    brier: float


@dataclass(frozen=True)
class RelationReliability:
    """The reliability of every calibrator on one relation.

    predicate    number of the relation
    triples      number of its judged triples
    observed     weighted share of true triples
    low, high    its 95 % Wilson interval, with the effective count
    calibrators  label -> fit; a predicted share outside the interval shows that the calibrator is wrong about the
                 relation as a whole
    """

    predicate: int
    triples: int
    observed: float
    low: float
    high: float
    calibrators: dict[str, RelationFit]


def reliability_by_relation(predictions: Predictions) -> list[RelationReliability]:
    """The reliability of each predicate of the judged triples, in the order of their numbers."""
    return [_reliability(predictions, predicate) for predicate in np.unique(predictions.triples[:, 1]).tolist()]


def _reliability(predictions: Predictions, predicate: int) -> RelationReliability:
    own = predictions.triples[:, 1] == predicate
    y, w = predictions.labels[own], predictions.weights[own]
    observed = np.array([np.average(y, weights=w)])
    low, high = wilson(observed, np.array([w.sum() ** 2 / (w**2).sum()]))
    fits = {
        label: RelationFit(float(np.average(q[own], weights=w)), brier(q[own], y, w))
        for label, q in predictions.probabilities.items()
    }
    return RelationReliability(predicate, int(own.sum()), float(observed[0]), float(low[0]), float(high[0]), fits)
