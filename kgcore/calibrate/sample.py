"""Calibration samples: scores, labels and weights, from labelled or from synthetic negatives.

Weights give positives and negatives a base rate, in all relations together and in each of them.
"""

from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import (
    Bools,
    Floats,
    Ints,
    Labels,
    Probabilities,
    Scores,
    Weights,
    as_floats,
    as_labels,
    as_probabilities,
    as_weights,
    same_length,
)
from kgcore.errors import FitError, InputError

SMALLEST, LARGEST = 1e-100, 1e100  # of scores and weights: a float can hold their squares
IN_RANGE = "each must be 0 or of a size from 1e-100 to 1e+100, so multiply all of them by one number"
LARGEST_FACTOR = 10.0  # a negative weighs at most this many times what it weighs without regard to relations


def scaled_weights(values: Weights | None, length: int) -> Weights:
    """Return `as_weights`, divided by the largest one if squares of such weights would overflow or vanish."""
    weights = as_weights(values, length)
    return weights if SMALLEST < weights.max() < LARGEST else weights / weights.max()


@dataclass(frozen=True)
class CalibrationSample:
    """The rows that a calibrator is fitted on, with at least one positive and one negative.

    scores      (n,) 0, or numbers of a size from SMALLEST to LARGEST, higher = more plausible
    labels      (n,) 1 = true, 0 = false
    weights     (n,) positive, of any scale, the largest at most LARGEST times the smallest; stored with mean 1
    predicates  (n,) position of each predicate in the graph's vocabulary; None: not known
    counts      (n,) the number of rows of an equal draw that each row stands for, above 0. `weights` contain them
                already. Methods that count rows without weights use them. None: 1 for each row
    concentrations
                (n,) for a row that stands for others that were left out: the sum of their squared counts, divided by
                the square of the sum of their counts; 1 for other rows. See kgcore/scores/search.py. None: 1 for all

    Raises InputError for arrays of different lengths or with values out of range, FitError if all labels are equal.
    """

    scores: Scores
    labels: Labels
    weights: Weights
    predicates: Ints | None = None
    counts: Weights | None = None
    concentrations: Weights | None = None

    def __post_init__(self) -> None:
        n = same_length(scores=self.scores, labels=self.labels, weights=self.weights)
        object.__setattr__(self, "scores", as_floats("scores", self.scores, n))
        object.__setattr__(self, "labels", as_labels(self.labels, n))
        size, weights = np.abs(self.scores), scaled_weights(self.weights, n)
        if (wrong := (size > LARGEST) | ((size > 0) & (size < SMALLEST))).any():
            raise InputError(f"scores hold {self.scores[wrong][0]:g}: {IN_RANGE}")
        if weights.min() < SMALLEST * weights.max():
            raise InputError(f"the largest weight is over {LARGEST:g} times the smallest: leave out rows of no weight")
        object.__setattr__(self, "weights", weights / weights.mean())
        if self.predicates is not None:
            same_length(scores=self.scores, predicates=self.predicates)
        if self.counts is not None:
            object.__setattr__(self, "counts", as_weights(self.counts, n))
        if self.concentrations is not None:
            object.__setattr__(self, "concentrations", as_weights(self.concentrations, n))
        if len(np.unique(self.labels)) < 2:
            found = "positives" if self.labels[0] == 1 else "negatives"
            raise FitError(f"the sample has {found} only: a calibrator needs positives and negatives")

    @property
    def base_rate(self) -> float:
        """Return the share of positives, by weight."""
        return float(np.average(self.labels, weights=self.weights))

    def part(self, rows: Bools) -> "CalibrationSample":
        """Return a sample of the rows where the mask `rows` (n,) is True. Its weights are scaled to mean 1 again."""
        columns = {name: None if column is None else column[rows] for name, column in vars(self).items()}
        return CalibrationSample(**columns)  # type: ignore[arg-type]

    def repeated(self, times: Ints) -> "CalibrationSample":
        """Return a sample with each row as often as `times` (n,) says, and the base rate of this sample.

        Raises FitError if no positive or no negative is left.
        """
        part, target = self.part(times > 0), self.weights
        weights = part.weights * times[times > 0]
        for label in (0, 1):
            own = part.labels == label
            weights[own] *= target[self.labels == label].sum() / weights[own].sum()
        return replace(part, weights=weights)

    @property
    def effective_weights(self) -> Weights:
        """Return the weights (n,), scaled so that the weights of each label sum to its effective count.

        The effective count of a label is (sum w)^2 / sum w^2 over its rows (Kish 1965). If all rows of a label have the
        same weight, each row counts as one observation. So it is in ground-truth samples, and in synthetic samples
        without dropped corruptions. A calibrator with a prior needs such counts, because a prior also counts
        observations. The scaled weights do not depend on the base rate. So a calibrator that is fitted with them moves
        its probabilities to the base rate of the sample with `shift`.

        With concentrations c, sum w^2 is sum c w^2: that of the sample without left-out rows. So a row has the
        effective weight that it has there, and a row that stands for many has theirs together.
        """
        negative, positive = effective_scales(self.labels, self.weights, shares=self.concentrations)
        return self.weights * np.where(self.labels == 1, positive, negative)

    @property
    def sizes(self) -> tuple[float, float]:
        """Return the numbers of negatives and of positives: see `label_sizes`."""
        return label_sizes(self.labels, self.counts)


def soft_sample(scores: Scores, confidences: Probabilities, predicates: Ints | None = None) -> CalibrationSample:
    """Build a sample of triples with confidences c in [0, 1]: soft labels.

    A triple is two rows with its score: label 1 with weight c, and label 0 with weight 1 - c. Rows of weight 0 are left
    out. So the weighted log loss of a fit is the cross-entropy - c log q - (1 - c) log(1 - q), its squared error is
    (q - c)^2 plus a constant, and the base rate is the mean confidence. With confidences of 0 and 1, this is
    `ground_truth_sample`.

    scores, confidences (n,), predicates (n,) or None

    The rows with label 1 come first, then those with label 0; each in the order of the triples. Raises InputError for a
    confidence outside [0, 1], FitError if all confidences are 0, or all are 1.
    """
    c = as_probabilities(confidences, same_length(scores=scores, confidences=confidences))
    true, false = np.flatnonzero(c > 0), np.flatnonzero(c < 1)
    rows, labels = np.r_[true, false], np.r_[np.ones(len(true)), np.zeros(len(false))]
    own = None if predicates is None else predicates[rows]
    return CalibrationSample(scores[rows], labels, np.r_[c[true], 1 - c[false]], own)


def ground_truth_sample(
    scores: Scores,
    labels: Labels,
    predicates: Ints | None = None,
    base_rate: float | None = None,
    counts: Weights | None = None,
) -> CalibrationSample:
    """Build a sample of labelled triples (paper, section 4, "Calibration with ground truth negatives").

    scores (n,), labels (n,) 0/1, predicates (n,) or None
    base_rate  share of the positives in the total weight, in (0, 1); None: the weights are the counts
    counts     (n,) above 0: the ratio of the weights of two rows with the same label; None: 1 for all rows

    Raises InputError and FitError as `CalibrationSample` does, and InputError for a base rate outside (0, 1).
    """
    return CalibrationSample(scores, labels, weights_at(labels, base_rate, counts), predicates)


def synthetic_sample(
    positives: Scores,
    corruptions: Scores,
    base_rate: float,
    weighted: bool = True,
    predicates: tuple[Ints, Ints] | None = None,
    counts: Weights | None = None,
    confidences: Probabilities | None = None,
    concentrations: Weights | None = None,
) -> CalibrationSample:
    """Build a sample of positives and corruptions, weighted to the base rate alpha (paper, section 4, equation 5).

    With P positives and N corruptions, each positive has the weight w+ = N / P and each corruption the weight
    w- = 1 / alpha - 1. So sum(w+) / (sum(w+) + sum(w-)) = alpha, for every eta, the number of corruptions per positive.
    If the predicates are known, each relation has this share: see `base_rate_weights`. Then positives are left out if
    their relation has no corruption.

    positives    (P,) scores of the positives
    corruptions  (N,) scores of the corruptions, which are the negatives of the sample
    base_rate    alpha, in (0, 1)
    weighted     if False, every weight is 1, or the row's count, and the base rate is not used
    predicates   (P,) predicates of the positives and (N,) predicates of the corruptions; None: not known
    counts       (N,) the number of drawn corruptions that each corruption stands for: see `every_corruption`. N is then
                 their sum. None: 1
    confidences  (P,) confidences of the positives, above 0. The weight of a positive is multiplied by its confidence
                 over the mean confidence of its relation, so base rates stay as they are. None: all are 1
    concentrations
                 (N,) as in `CalibrationSample`; None: 1

    Raises InputError for a base rate outside (0, 1), FitError if positives or corruptions are missing.
    """
    n, m = len(positives), len(corruptions)
    scores, labels = np.r_[positives, corruptions], np.r_[np.ones(n), np.zeros(m)]
    known = None if predicates is None else np.concatenate(predicates)
    times, shares = (None if column is None else np.r_[np.ones(n), column] for column in (counts, concentrations))
    truth = np.ones(n + m) if confidences is None else np.r_[confidences, np.ones(m)]
    if not weighted:
        return CalibrationSample(scores, labels, truth if times is None else times * truth, known, times, shares)
    if known is not None and not (used := both_labels(labels, known)).all():
        scores, labels, truth, known = scores[used], labels[used], truth[used], known[used]
        times, shares = (None if column is None else column[used] for column in (times, shares))
    weights = base_rate_weights(labels, base_rate, known, times)
    if confidences is not None:
        weights = weights * _relative(truth, labels, known)
    return CalibrationSample(scores, labels, weights, known, times, shares)


def _relative(truth: Probabilities, labels: Labels, predicates: Ints | None) -> Weights:
    """Return the confidences (n,) of positives over their mean in the relation; 1 for negatives."""
    place = np.zeros(len(truth), dtype=np.int64) if predicates is None else predicates
    positive, size = labels == 1, int(place.max()) + 1
    sums = np.bincount(place[positive], truth[positive], size)
    mean = sums / np.maximum(np.bincount(place[positive], minlength=size), 1)
    return np.where(positive, truth / np.where(positive, mean[place], 1.0), 1.0)


def even_sample(sample: CalibrationSample, rng: np.random.Generator, repeat: bool = False) -> CalibrationSample:
    """Draw negatives in proportion to their weights, so that those of one relation have equal weights.

    In a sample of candidates, the negatives of a relation have different weights: those of their strategy, or the
    probabilities that they are mistakes. In a sample of all corruptions, the weights are the probabilities of the
    corruptions. Methods that count rows, such as conformal p-values, would take the rows as they are. The drawn rows
    share the weight of all, and are distributed like the mistakes.

    repeat  whether as many negatives as there are are drawn, so that one of a large weight is drawn several times; one
            that stands for others that were left out is not, because it is one observation. False: none is

    Return the sample itself if no weights differ, as in samples of labelled negatives and of corruptions by one rule.
    """
    relations = np.zeros(len(sample.labels), dtype=np.int64) if sample.predicates is None else sample.predicates
    stands = np.zeros(len(relations), dtype=bool) if sample.concentrations is None else sample.concentrations != 1
    return _drawn(sample, np.where(sample.labels == 0, relations, -1), stands | (not repeat), rng)


def evenly_weighted(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw rows, none twice, so that those of each label have equal weights. They represent the same distribution.

    Confidence limits that count rows are right for the result, and wrong for weighted rows. The base rate stays.
    Return the sample itself if the weights of each label are equal.
    """
    return _drawn(sample, sample.labels.astype(np.int64), np.ones(len(sample.labels), dtype=bool), rng)


def _drawn(sample: CalibrationSample, groups: Ints, once: Bools, rng: np.random.Generator) -> CalibrationSample:
    """Draw the rows of each group (n,), below 0: none, in proportion to their weights; no row of `once` (n,) twice.

    The draw is systematic, in the order of scores: a row that is expected x times is drawn floor(x) or ceil(x) times.
    """
    times, weights = np.ones(len(groups), dtype=np.int64), sample.weights.copy()
    for group in np.unique(groups[groups >= 0]).tolist():
        rows = np.flatnonzero(groups == group)
        rows = rows[np.argsort(sample.scores[rows], kind="stable")]
        own, number = sample.weights[rows], len(rows)
        if np.ptp(own) > 1e-9 * own.max():
            if once[rows].any():
                number = max(1, min(number, int(own.sum() / own[once[rows]].max())))
            expected = np.cumsum(own) * (number / own.sum())
            expected[-1] = number
            times[rows] = np.diff(np.floor(expected + rng.random() * (1 - 1e-9)), prepend=0).astype(np.int64)
            weights[rows] = own.sum() / number
    if (times == 1).all():
        return sample
    kept = np.repeat(np.arange(len(times)), times)
    predicates = None if sample.predicates is None else sample.predicates[kept]
    return CalibrationSample(sample.scores[kept], sample.labels[kept], weights[kept], predicates)


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
    rows = np.ones(len(labels)) if counts is None else counts
    negatives, positives = (
        float(own.sum() ** 2 / (own**2).sum()) if len(own) else 0.0 for own in (rows[labels == 0], rows[labels == 1])
    )
    return negatives, positives


def both_labels(labels: Labels, predicates: Ints) -> Bools:
    """Return the rows (n,) of the relations that have positives and negatives.

    The rows of other relations say nothing about the share of true triples at a score: if all corruptions of a relation
    are known facts, its positives have no counterpart.

    labels, predicates  (n,) 0/1, and the position of each predicate
    """
    place, true, false = _counts(labels, predicates, np.ones(len(labels)))
    return ((true > 0) & (false > 0))[place]


def _counts(labels: Labels, predicates: Ints, times: Weights) -> tuple[Ints, Floats, Floats]:
    """Return the number of each row's relation (n,), and the positives and the negatives of each relation (R,)."""
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
    return positive / (positive + negative)


def check_base_rate(name: str, base_rate: object) -> None:
    """Raise InputError if the base rate is outside (0, 1). The message calls it `name`."""
    value = f"{base_rate:g}" if isinstance(base_rate, float) else f"{base_rate!r:.60}"
    number = "" if hasattr(base_rate, "__float__") else "a number "
    if number or not 0 < base_rate < 1:  # type: ignore[operator]  # it has __float__
        raise InputError(f"{name} is {value}: it must be {number}above 0 and below 1")


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
        if (rows := labels == label).any():
            ratios[label] = float(weights[rows].sum() / squares[rows].sum())
    return ratios[0], ratios[1]
