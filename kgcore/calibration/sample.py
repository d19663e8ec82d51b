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
from kgcore.calibration.balance import base_rate_weights, both_labels, label_sizes, weights_at
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
        predicates = None if self.predicates is None else self.predicates[rows]
        counts = None if self.counts is None else self.counts[rows]
        shares = None if self.concentrations is None else self.concentrations[rows]
        return CalibrationSample(self.scores[rows], self.labels[rows], self.weights[rows], predicates, counts, shares)

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
