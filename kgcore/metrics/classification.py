"""Triple classification: one threshold on the probability, or one threshold per relation on the score."""

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Scores, Weights, as_truth, as_weights, same_length
from kgcore.errors import InputError
from kgcore.metrics.base import Metric, Tally
from kgcore.registries import METRICS


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
