"""Triple classification: one threshold on the probability, or one threshold per relation on the score.

Discrimination: whether true triples have higher probabilities than false ones. Sharpness: how far probabilities spread.
Both are independent of calibration; sharpness does not depend on the labels either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Scores, Weights, as_truth, as_weights, same_length
from kgcore.errors import InputError
from kgcore.metrics.base import Metric, Tally
from kgcore.registries import METRICS


@dataclass(frozen=True)
class ThresholdResult:
    """A relation's threshold on the score, and the accuracy of its decisions on the test triples."""

    threshold: float
    accuracy: float


@dataclass(frozen=True)
class RelationDecisions:
    """The results of the two thresholds of one relation on its test triples.

    predicate  position of the relation in the graph's vocabulary
    triples    number of its test triples
    learned    the result of the threshold with the best validation accuracy
    median     the result of the threshold at the median validation score
    """

    predicate: int
    triples: int
    learned: ThresholdResult
    median: ThresholdResult

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RelationDecisions":
        """Build it from the dictionary that `dataclasses.asdict` gives. Keys that are not fields are ignored."""
        learned, median = (ThresholdResult(**data[rule]) for rule in ("learned", "median"))
        return cls(data["predicate"], data["triples"], learned, median)


def accuracy(decisions: Bools, labels: Labels, weights: Weights | None = None) -> float:
    """Return the weighted share of decisions (n,) that equal their label (n,), in [0, 1].

    For confidences it is the expected share, if each triple is true with the probability that is its confidence: a
    decision for a triple with confidence c is right with probability c if it is "true", and 1 - c if it is "false".

    Raises InputError for labels outside [0, 1].
    """
    n = same_length(decisions=decisions, labels=labels)
    y, w, called = as_truth(labels, n), as_weights(weights, n), np.asarray(decisions, dtype=bool)
    return float(np.average(np.where(called, y, 1 - y), weights=w))


def learned_thresholds(
    predicates: Ints, scores: Scores, labels: Labels, num_predicates: int, weights: Weights | None = None
) -> Floats:
    """Learn the threshold (R,) of each predicate with the best weighted accuracy on its validation triples.

    A triple is called true where its score is above the threshold of its predicate. A predicate without validation
    triples has the threshold that fits all validation triples together.

    predicates, scores, labels, weights  (n,) of the validation triples; weights None: equal. Labels may be confidences

    Socher et al., NIPS 2013; paper, section 5.3.
    """
    n = same_length(predicates=predicates, scores=scores, labels=labels)
    y, w = as_truth(labels, n), as_weights(weights, n)
    thresholds = np.full(num_predicates, best_threshold(scores, y, w))
    for predicate in np.unique(predicates):
        rows = predicates == predicate
        thresholds[predicate] = best_threshold(scores[rows], y[rows], w[rows])
    return thresholds


def median_thresholds(predicates: Ints, scores: Scores, num_predicates: int, weights: Weights | None = None) -> Floats:
    """Set the threshold (R,) of each predicate to the weighted median of its validation scores; of all if it has none.

    predicates, scores, weights  (n,) of the validation triples; weights None: equal

    This is the rule of the published code. It is right only if half of the triples are true.
    """
    w = as_weights(weights, same_length(predicates=predicates, scores=scores))
    thresholds = np.full(num_predicates, weighted_median(scores, w))
    for predicate in np.unique(predicates):
        rows = predicates == predicate
        thresholds[predicate] = weighted_median(scores[rows], w[rows])
    return thresholds


def weighted_median(values: Floats, weights: Weights) -> float:
    """Return the value that has half of the weight on each side.

    If exactly half of the weight lies up to one value, return the midpoint of this value and the next one.
    """
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    low = int(np.searchsorted(share, 0.5 - 1e-12))
    high = low + 1 if abs(share[low] - 0.5) <= 1e-12 and low + 1 < len(values) else low
    return float((values[order][low] + values[order][high]) / 2)


def best_threshold(scores: Scores, labels: Labels, weights: Weights) -> float:
    """Return the threshold tau that maximises the weighted accuracy of the decision `score > tau`.

    The candidates are one value below all scores, the midpoints of neighbouring distinct scores, and the highest score.
    If several candidates are equally good, the lowest is chosen. Raises InputError if there are no scores.
    """
    if not len(scores):
        raise InputError("a threshold needs at least one score")
    distinct, place = np.unique(scores, return_inverse=True)
    gain = np.bincount(place, weights=weights * (1 - 2 * labels))
    # entry i: the weight of correct decisions, minus a constant, if the i lowest distinct scores are called false
    correct = np.r_[0.0, np.cumsum(gain)]
    cuts = np.r_[distinct[0] - 1, (distinct[:-1] + distinct[1:]) / 2, distinct[-1]]
    return float(cuts[np.argmax(correct)])


def accuracy_of(t: Tally) -> float:
    """Compute `accuracy` of the decision q > tau on a tally."""
    called_true = (t.q > t.sample.tau).astype(np.float64)
    return t.mean(called_true, 1 - called_true)


METRICS.add("accuracy", Metric("accuracy", "headline", "highest", accuracy_of, order=40, column=50))


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
