"""Weights that give positives and negatives a base rate, in all relations together and in each of them."""

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Weights, as_probabilities, same_length
from kgcore.errors import FitError, InputError

LARGEST_FACTOR = 10.0  # a negative weighs at most this many times what it weighs without regard to relations


def base_rate_weights(
    labels: Labels, base_rate: float, predicates: Ints | None = None, counts: Weights | None = None
) -> Weights:
    """Return weights (n,) for labels (n,) 0/1 with which the positives' share of the weight is the base rate alpha.

    Without predicates: w+ = N / P and w- = 1 / alpha - 1, for P positives and N negatives.

    With predicates (n,), each relation r has this share, whatever its numbers P_r of positives and N_r of negatives:

        w+ = t_r N / P,    w- = t_r c_r (1 / alpha - 1),    c_r = (P_r / N_r) / (P / N),    t_r = min(1, 10 / c_r)

    c_r is 1 if each relation has as many negatives per positive as all together; then the weights are equal to those
    without predicates, to the last bit. It is larger where corruptions were dropped because they are known facts.
    Without it, dropped corruptions would raise the base rate of a relation. t_r gives a relation with very few
    negatives less weight, so that no negative weighs more than ten times w- of a relation with c_r = 1. It does not
    change the relation's base rate.

    With counts (n,), row i stands for counts_i equal rows: the numbers of rows are sums of counts, and its weight is
    multiplied by counts_i.

    The weights are scaled to mean 1. Raises InputError for a base rate outside (0, 1), FitError if all labels are
    equal, in all rows or in the rows of one relation: see `both_labels`.
    """
    check_base_rate("base_rate", base_rate)
    times = np.ones(len(labels)) if counts is None else counts
    positives, negatives = float(times[labels == 1].sum()), float(times[labels == 0].sum())
    if not positives or not negatives:
        raise FitError(
            f"there are {positives:,.0f} positives and {negatives:,.0f} negatives: weights for a base rate need both"
        )
    weights: Weights = np.where(labels == 1, negatives / positives, 1 / base_rate - 1)
    if predicates is not None:
        place, true, false = _counts(labels, predicates, times)
        if not (true.all() and false.all()):
            raise FitError("a relation has positives only, or negatives only: leave out its rows")
        precision = 0.0 if counts is None else 1e-9  # numbers of rows are exact, sums of counts are rounded
        if (np.abs(true * false.sum() / (false * true.sum()) - 1) > precision).any():
            factors = (true / false) / (positives / negatives)
            trimmed = np.minimum(1, LARGEST_FACTOR / factors)
            weights *= np.where(labels == 1, trimmed[place], (trimmed * factors)[place])
    weights *= times
    weights /= weights.mean()
    return weights


def weights_at(labels: Labels, base_rate: float | None, counts: Weights | None = None) -> Weights:
    """Return `base_rate_weights` without predicates; without a base rate, the counts (n,) or ones."""
    if base_rate is not None:
        return base_rate_weights(labels, base_rate, counts=counts)
    return np.ones(len(labels)) if counts is None else counts


def label_sizes(labels: Labels, counts: Weights | None) -> tuple[float, float]:
    """Return the numbers of negatives and of positives among labels (n,) 0/1.

    With counts c (n,), it is the effective number (sum c)^2 / sum c^2 of each label (Kish 1965).
    """
    if counts is None:
        return float((labels == 0).sum()), float((labels == 1).sum())
    negatives, positives = (counts[labels == label] for label in (0, 1))
    return _effective(negatives), _effective(positives)


def _effective(counts: Weights) -> float:
    return float(counts.sum() ** 2 / (counts**2).sum()) if len(counts) else 0.0


def both_labels(labels: Labels, predicates: Ints) -> Bools:
    """Return the rows (n,) of the relations that have positives and negatives.

    The rows of other relations say nothing about the share of true triples at a score: if all corruptions of a relation
    are known facts, its positives have no counterpart.

    labels, predicates  (n,) 0/1, and the position of each predicate
    """
    place, true, false = _counts(labels, predicates, np.ones(len(labels)))
    both: Bools = ((true > 0) & (false > 0))[place]
    return both


def _counts(labels: Labels, predicates: Ints, times: Weights) -> tuple[Ints, Floats, Floats]:
    """Return the number of each row's relation (n,), and the positives and the negatives of each relation (R,).

    times  (n,) the number of rows that each row stands for
    """
    same_length(labels=labels, predicates=predicates)
    _, place = np.unique(predicates, return_inverse=True)
    size = int(place.max()) + 1
    true, false = (np.bincount(place[labels == label], times[labels == label], size) for label in (1, 0))
    return place, true.astype(np.float64), false.astype(np.float64)


def shift(probabilities: Probabilities, base_rate: float, new_base_rate: float) -> Probabilities:
    """Shift probabilities (n,) in [0, 1] from one base rate to another, both in (0, 1):

        logit q' = logit q + logit(new_base_rate) - logit(base_rate)

    The code computes q' = q r / (q r + (1 - q) s), r = new_base_rate / base_rate, s = (1 - new_base_rate) /
    (1 - base_rate). In this form probabilities of 0 and 1 stay as they are.

    Elkan, IJCAI 2001, theorem 2; Saerens, Latinne & Decaestecker 2002, equation 2.4. The result is exact if
    the scores of positives and the scores of negatives keep their distributions, and only the share of positives
    changes. Raises InputError for probabilities or base rates out of range.
    """
    check_base_rate("base_rate", base_rate)
    check_base_rate("new_base_rate", new_base_rate)
    q = as_probabilities(probabilities)
    positive = q * (new_base_rate / base_rate)
    negative = (1 - q) * ((1 - new_base_rate) / (1 - base_rate))
    shifted: Probabilities = positive / (positive + negative)
    return shifted


def check_base_rate(name: str, base_rate: float) -> None:
    """Raise InputError if the base rate is outside (0, 1). The message calls it `name`."""
    if not 0 < base_rate < 1:
        raise InputError(f"{name} is {base_rate:g}: it must be above 0 and below 1")


def effective_scales(
    labels: Labels,
    weights: Weights,
    otherwise: tuple[float, float] = (np.nan, np.nan),
    shares: Weights | None = None,
) -> tuple[float, float]:
    """Return sum w / sum w^2 of the negatives and of the positives: their effective weight for each unit of weight.

    labels, weights  (n,) 0/1, and w
    otherwise        the numbers of a label without rows
    shares           (n,) concentrations of the rows; None: 1
    """
    ratios = list(otherwise)
    squares = weights**2 if shares is None else shares * weights**2
    for label in (0, 1):
        rows = labels == label
        if rows.any():
            ratios[label] = float(weights[rows].sum() / squares[rows].sum())
    return ratios[0], ratios[1]
