"""Discrimination: whether true triples have higher probabilities than false ones. It is independent of calibration."""

import numpy as np

from kgcore.metrics.base import Metric
from kgcore.metrics.tally import Tally
from kgcore.registries import METRICS


def auroc_of(t: Tally) -> float:
    """Return the area under the ROC curve, in [0, 1]; NaN if all labels are equal.

    This is the weighted share of pairs of a true and a false triple in which the true triple has the higher
    probability. A tie counts half. Hanley & McNeil 1982.
    """
    positive, negative = t.positive.sum(), t.negative.sum()
    if not positive or not negative:
        return float("nan")
    below = np.cumsum(t.negative) - t.negative / 2
    return float(t.positive @ below / (positive * negative))


def average_precision_of(t: Tally) -> float:
    """Return the average precision, in [0, 1]: sum_k (recall_k - recall_{k-1}) precision_k over falling thresholds k.

    This is the step-wise area under the precision-recall curve. It equals the weighted mean, over the true triples, of
    the precision at the probability of the triple. For a constant probability it is the base rate. Return NaN if no
    triple is true.
    """
    positive = t.positive.sum()
    if not positive:
        return float("nan")
    hits = np.flatnonzero(t.positive)
    found, called = (np.cumsum(values[::-1])[::-1][hits] for values in (t.positive, t.weight))
    return float(t.positive[hits] @ (found / called) / positive)


METRICS.add(
    "auroc",
    Metric("AUROC", "discrimination", "highest", lambda draw: auroc_of(draw.tally), leading=True, order=140, column=30),
)
METRICS.add(
    "average_precision",
    Metric(
        "average precision",
        "discrimination",
        "highest",
        lambda draw: average_precision_of(draw.tally),
        order=150,
        column=40,
    ),
)
