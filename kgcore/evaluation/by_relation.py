"""Reliability of each relation, because probabilities can be right on average but wrong for every single relation."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.metrics.proper import brier
from kgcore.metrics.reliability import wilson

if TYPE_CHECKING:
    from kgcore.evaluation.predictions import Predictions


@dataclass(frozen=True)
class RelationFit:
    """The probabilities of one calibrator on one relation, compared with the labels.

    predicted  weighted mean probability of the relation's triples
    brier      Brier score on these triples
    """

    predicted: float
    brier: float


@dataclass(frozen=True)
class RelationReliability:
    """The reliability of every calibrator on one relation.

    predicate    position of the relation in the graph's vocabulary
    triples      number of test triples of the relation
    observed     weighted share of true triples among them; their mean confidence, if they have confidences
    low, high    ends of the 95 % Wilson interval of `observed`, with the effective count
    calibrators  label of the calibrator -> its fit. If `predicted` is outside the interval, the probabilities of this
                 calibrator are too high or too low for the relation as a whole.
    """

    predicate: int
    triples: int
    observed: float
    low: float
    high: float
    calibrators: dict[str, RelationFit]


def reliability_by_relation(predictions: "Predictions") -> list[RelationReliability]:
    """Return the reliability of each predicate that occurs in the test triples, in increasing order of its position."""
    return [_reliability(predictions, predicate) for predicate in np.unique(predictions.triples[:, 1]).tolist()]


def _reliability(predictions: "Predictions", predicate: int) -> RelationReliability:
    own = predictions.triples[:, 1] == predicate
    y, w = predictions.truth[own], predictions.weights[own]
    observed = np.array([np.average(y, weights=w)])
    low, high = wilson(observed, np.array([w.sum() ** 2 / (w**2).sum()]))
    fits = {
        label: RelationFit(float(np.average(q[own], weights=w)), brier(q[own], y, w))
        for label, q in predictions.probabilities.items()
    }
    return RelationReliability(predicate, int(own.sum()), float(observed[0]), float(low[0]), float(high[0]), fits)
