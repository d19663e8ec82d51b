"""Calibration samples: scores, labels and weights, from labelled or from synthetic negatives."""

from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import (
    Bools,
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
from kgcore.calibration.balance import base_rate_weights, both_labels, effective_scales, label_sizes, weights_at
from kgcore.errors import FitError


@dataclass(frozen=True)
class CalibrationSample:
    """The rows that a calibrator is fitted on, with at least one positive and one negative.

    scores      (n,) any finite numbers, higher = more plausible
    labels      (n,) 1 = true, 0 = false
    weights     (n,) positive, of any scale; they are stored with mean 1
    predicates  (n,) position of each predicate in the graph's vocabulary; None: not known
    counts      (n,) the number of rows of an equal draw that each row stands for, above 0. `weights` contain them
                already. Methods that count rows without weights use them. None: 1 for each row
    concentrations
                (n,) for a row that stands for others that were left out: the sum of their squared counts, divided by
                the square of the sum of their counts; 1 for other rows. See kgcore/score_search.py. None: 1 for all

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
        weights = as_weights(self.weights, n)
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
        weights: Weights = self.weights * np.where(self.labels == 1, positive, negative)
        return weights

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
    scores, labels = np.r_[positives, corruptions], np.r_[np.ones(len(positives)), np.zeros(len(corruptions))]
    known = None if predicates is None else np.concatenate(predicates)
    times = None if counts is None else np.r_[np.ones(len(positives)), counts]
    truth = np.ones(len(labels)) if confidences is None else np.r_[confidences, np.ones(len(corruptions))]
    shares = None if concentrations is None else np.r_[np.ones(len(positives)), concentrations]
    if not weighted:
        return CalibrationSample(scores, labels, truth if times is None else times * truth, known, times, shares)
    if known is not None and not (used := both_labels(labels, known)).all():
        scores, labels, known, truth = scores[used], labels[used], known[used], truth[used]
        times = None if times is None else times[used]
        shares = None if shares is None else shares[used]
    weights = base_rate_weights(labels, base_rate, known, times)
    if confidences is not None:
        weights = weights * _relative(truth, labels, known)
    return CalibrationSample(scores, labels, weights, known, times, shares)


def _relative(truth: Probabilities, labels: Labels, predicates: Ints | None) -> Weights:
    """Return the confidences (n,) of positives over their mean in the relation; 1 for negatives."""
    place = np.zeros(len(truth), dtype=np.int64) if predicates is None else predicates
    positive = labels == 1
    sums = np.bincount(place[positive], truth[positive], int(place.max()) + 1)
    counts = np.bincount(place[positive], minlength=int(place.max()) + 1)
    mean = sums / np.maximum(counts, 1)
    return np.where(positive, truth / np.where(positive, mean[place], 1.0), 1.0)


def even_sample(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw negatives in proportion to their weights, so that those of one relation have equal weights.

    In a sample of candidates, the negatives of a relation have different weights: those of their strategy, or the
    probabilities that they are mistakes. Methods that count rows, such as conformal p-values, would take the rows as
    they are. So a negative of weight w is kept with the probability w / (largest weight in its relation), and the rows
    that are kept share the weight of all. They are then distributed like the mistakes.

    Return the sample itself if no weights differ, as in samples of labelled negatives and of corruptions by one rule.
    """
    relations = np.zeros(len(sample.labels), dtype=np.int64) if sample.predicates is None else sample.predicates
    kept, weights = np.ones(len(relations), dtype=bool), sample.weights.copy()
    negative = sample.labels == 0
    for relation in np.unique(relations[negative]).tolist():
        rows = np.flatnonzero(negative & (relations == relation))
        own = sample.weights[rows]
        if np.ptp(own) <= 1e-9 * own.max():
            continue
        drawn = rng.random(len(rows)) < own / own.max()
        kept[rows], weights[rows] = drawn, own.sum() / drawn.sum()
    if kept.all():
        return sample
    predicates = None if sample.predicates is None else relations[kept]
    return CalibrationSample(sample.scores[kept], sample.labels[kept], weights[kept], predicates)


def drawn_sample(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw negatives with replacement, in proportion to their weights, as many in each relation as it has.

    This is for a sample of all corruptions, whose weights are the probabilities of the corruptions. The result is
    distributed like a sample of drawn corruptions. The draw is systematic, in the order of
    scores: a negative that is expected n times is drawn floor(n) or ceil(n) times. If rows stand for others
    that were left out, fewer are drawn, so that no such row is expected more than once: it is one observation.

    Return the sample itself if the negatives of each relation have equal weights, as in samples of drawn corruptions.
    """
    relations = np.zeros(len(sample.labels), dtype=np.int64) if sample.predicates is None else sample.predicates
    times, weights = np.ones(len(relations), dtype=np.int64), sample.weights.copy()
    negative = sample.labels == 0
    for relation in np.unique(relations[negative]).tolist():
        rows = np.flatnonzero(negative & (relations == relation))
        rows = rows[np.argsort(sample.scores[rows], kind="stable")]
        own = sample.weights[rows]
        if np.ptp(own) > 1e-9 * own.max():
            number = len(rows)
            if sample.concentrations is not None and (many := sample.concentrations[rows] != 1).any():
                number = max(1, min(number, int(own.sum() / own[many].max())))
            expected = np.cumsum(own) * (number / own.sum())
            expected[-1] = number
            times[rows] = np.diff(np.floor(expected + rng.random() * (1 - 1e-9)), prepend=0).astype(np.int64)
            weights[rows] = own.sum() / number
    if (times == 1).all():
        return sample
    kept = np.repeat(np.arange(len(times)), times)
    predicates = None if sample.predicates is None else relations[kept]
    return CalibrationSample(sample.scores[kept], sample.labels[kept], weights[kept], predicates)


def evenly_weighted(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw rows so that those of each label have equal weights. They represent the same distribution of scores.

    A row stays with the probability w / max w, where the maximum is over the rows of its label (rejection sampling).
    Confidence limits that count rows are right for the result, and wrong for weighted rows. The base rate stays.

    Return the sample itself if the weights of each label are equal.
    """
    label = sample.labels.astype(np.int8)
    largest = np.array([sample.weights[label == either].max() for either in (0, 1)])[label]
    kept = rng.random(len(largest)) * largest < sample.weights
    if kept.all():
        return sample
    part = sample.part(kept)
    return replace(part, weights=base_rate_weights(part.labels, sample.base_rate))
