"""Discrimination: whether true triples have higher probabilities than false ones. Sharpness: how far these spread.

Both are independent of calibration; sharpness does not depend on the labels either.
"""

import numpy as np

from kgcore.metrics.base import Metric, Tally
from kgcore.registries import METRICS


def auroc(t: Tally) -> float:
    """Return the area under the ROC curve, in [0, 1]; NaN if all labels are equal.

    This is the weighted share of pairs of a true and a false triple in which the true triple has the higher
    probability. A tie counts half. Hanley & McNeil 1982.
    """
    positive, negative = t.positive.sum(), t.negative.sum()
    if not positive or not negative:
        return float("nan")
    below = np.cumsum(t.negative) - t.negative / 2
    return float(t.positive @ below / (positive * negative))


def average_precision(t: Tally) -> float:
    """Return the average precision, in [0, 1]: sum_k (recall_k - recall_{k-1}) precision_k over falling thresholds k.

    This is the step-wise area under the precision-recall curve. It equals the weighted mean, over the true triples, of
    the precision at the probability of the triple. For a constant probability it is the base rate. Return NaN if no
    triple is true.
    """
    positive = t.positive.sum()
    if not positive:
        return float("nan")
    hits = np.flatnonzero(t.positive)
    recalled, called = (np.cumsum(values[::-1])[::-1][hits] for values in (t.positive, t.weight))
    return float(t.positive[hits] @ (recalled / called) / positive)


def sharpness(t: Tally) -> float:
    """Return the weighted variance of the probabilities, in [0, 1/4]. It does not depend on the labels.

    Murphy & Winkler 1987; Gneiting, Balabdaoui & Raftery 2007: good probabilities are as sharp as calibration
    allows. For perfectly calibrated probabilities, sharpness equals the discrimination part of the Brier score. If it
    is higher than that part, the probabilities are overconfident.
    """
    squares = (t.q - t.mean(t.q, t.q)) ** 2
    return t.mean(squares, squares)


METRICS.add("auroc", Metric("AUROC", "discrimination", "highest", auroc, leading=True, order=140, column=30))
METRICS.add(
    "average_precision",
    Metric("average precision", "discrimination", "highest", average_precision, order=150, column=40),
)
METRICS.add("sharpness", Metric("sharpness", "sharpness", "neither", sharpness, order=160, column=40))
