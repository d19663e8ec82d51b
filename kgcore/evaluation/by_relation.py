"""Reliability of each relation: probabilities that are right on the whole may be wrong of every relation."""

from typing import Any

import numpy as np

from kgcore.evaluation.predictions import Predictions
from kgcore.metrics.proper import brier
from kgcore.metrics.reliability import wilson


def reliability_by_relation(predictions: Predictions) -> list[dict[str, Any]]:
    """For each predicate of the judged triples, in the order of their numbers:

        predicate, triples  its number, and how many triples of it were judged
        observed, low, high weighted share of true triples, with its 95 % Wilson interval on the effective count
        calibrators         label -> {predicted: weighted mean probability, brier}

    A predicted share outside the interval says that the calibrator is wrong about this relation as a whole.
    """
    found = []
    for predicate in np.unique(predictions.triples[:, 1]).tolist():
        own = predictions.triples[:, 1] == predicate
        y, w = predictions.labels[own], predictions.weights[own]
        observed = np.array([np.average(y, weights=w)])
        low, high = wilson(observed, np.array([w.sum() ** 2 / (w**2).sum()]))
        row = {"predicate": predicate, "triples": int(own.sum()), "observed": float(observed[0])}
        calibrators = {
            label: {"predicted": float(np.average(q[own], weights=w)), "brier": brier(q[own], y, w)}
            for label, q in predictions.probabilities.items()
        }
        found.append(row | {"low": float(low[0]), "high": float(high[0]), "calibrators": calibrators})
    return found
