"""Triple classification: one threshold on the probability, or one threshold per relation on the score.

Discrimination: whether true triples have higher probabilities than false ones. Sharpness: how far probabilities spread.
Both are independent of calibration; sharpness does not depend on the labels either. Metrics of filtered ranks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Scores, Weights, as_truth, same_length
from kgcore.calibrate.sample import scaled_weights
from kgcore.errors import InputError
from kgcore.measure.metrics.base import Metric, Tally
from kgcore.registries import METRICS

HITS = (1, 3, 10)


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
    y, w, called = as_truth(labels, n), scaled_weights(weights, n), np.asarray(decisions, dtype=bool)
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
    y, w = as_truth(labels, n), scaled_weights(weights, n)
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
    w = scaled_weights(weights, same_length(predicates=predicates, scores=scores))
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


def rank_gain(ranks: Floats, sizes: Floats) -> float:
    """Return 1 - sum(log r) / sum(E log r of a random order) of ranks r >= 1 among `sizes` candidates each.

    It is 1 if all ranks are 1, and 0 for a random order, for which E log r = log(n!) / n with n candidates. A row of
    rank r takes about log r to name, so this is the share of these lengths that the order saves. 0 if every size is 1.
    """
    expected = sum(math.lgamma(n + 1) / n for n in np.ravel(sizes).tolist())
    return 1 - float(np.log(ranks).sum()) / expected if expected else 0.0


def rank_metrics(ranks: Floats, weights: Weights | None = None) -> dict[str, float]:
    """Return the mean rank, the mean reciprocal rank and Hits@N of ranks >= 1.

    ranks    (n, ...) such as one column for each replaced side; all ranks count together
    weights  (n,) non-negative: how much each triple counts. With confidences as weights, the metrics are the means over
             the triples that are expected to be true. None, or all 0: all triples count the same

    mr = mean(rank); mrr = mean(1 / rank), in (0, 1]; hits_at_N = share of ranks <= N. Paper, section 5.
    """
    r = np.asarray(ranks, dtype=np.float64).reshape(len(ranks), -1)
    w = None if weights is None or not np.any(weights) else np.repeat(weights, r.shape[1])
    values = {"mr": r, "mrr": 1 / r} | {f"hits_at_{n}": r <= n for n in HITS}
    return {name: float(np.average(value.ravel(), weights=w)) for name, value in values.items()}


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


METRICS.add("accuracy", Metric("accuracy", "headline", "highest", accuracy_of, order=40, column=50))
METRICS.add("auroc", Metric("AUROC", "discrimination", "highest", auroc, leading=True, order=140, column=30))
METRICS.add(
    "average_precision",
    Metric("average precision", "discrimination", "highest", average_precision, order=150, column=40),
)
METRICS.add("sharpness", Metric("sharpness", "sharpness", "neither", sharpness, order=160, column=40))
