"""What a calibrator is fitted on: scores, labels, weights; from labelled or from synthetic negatives."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Ints, Labels, Scores, Weights, as_floats, as_labels, as_weights, same_length
from kgcore.calibration.shift import check_base_rate
from kgcore.errors import FitError


@dataclass(frozen=True)
class CalibrationSample:
    """Scores (n,), labels (n,) 0/1, weights (n,) scaled to mean 1, and where they are known the predicates (n,).
    Both labels occur.

    Raises InputError for arrays that do not fit together, FitError where one of the labels is missing.
    """

    scores: Scores
    labels: Labels
    weights: Weights
    predicates: Ints | None = None

    def __post_init__(self) -> None:
        n = same_length(scores=self.scores, labels=self.labels, weights=self.weights)
        object.__setattr__(self, "scores", as_floats("scores", self.scores, n))
        object.__setattr__(self, "labels", as_labels(self.labels, n))
        weights = as_weights(self.weights, n)
        object.__setattr__(self, "weights", weights / weights.mean())
        if self.predicates is not None:
            same_length(scores=self.scores, predicates=self.predicates)
        if len(np.unique(self.labels)) < 2:
            raise FitError("a calibrator needs positives and negatives: the sample has one kind only")

    @property
    def base_rate(self) -> float:
        """Share of positives by weight."""
        return float(np.average(self.labels, weights=self.weights))

    def part(self, rows: Bools) -> "CalibrationSample":
        """The rows of a mask (n,) as a sample."""
        predicates = None if self.predicates is None else self.predicates[rows]
        return CalibrationSample(self.scores[rows], self.labels[rows], self.weights[rows], predicates)


def ground_truth_sample(scores: Scores, labels: Labels, predicates: Ints | None = None) -> CalibrationSample:
    """Labelled triples as they are, weight 1 each (paper, section 4, "Calibration with ground truth negatives")."""
    return CalibrationSample(scores, labels, np.ones(len(scores)), predicates)


def synthetic_sample(
    positives: Scores,
    corruptions: Scores,
    base_rate: float,
    weighted: bool = True,
    predicates: tuple[Ints, Ints] | None = None,
) -> CalibrationSample:
    """Positives and corruptions, weighted to the base rate alpha (paper, section 4, equation 5).

    w+ = N / P and w- = 1 / alpha - 1 for P positives and N corruptions, so that
    sum(w+) / (sum(w+) + sum(w-)) = alpha whatever eta was. `weighted=False` leaves every weight 1.
    `predicates` are those of the positives, and of the corruptions.

    Raises InputError for a base rate outside (0, 1), FitError where positives or corruptions are missing.
    """
    labels = np.r_[np.ones(len(positives)), np.zeros(len(corruptions))]
    weights = base_rate_weights(labels, base_rate) if weighted else np.ones(len(labels))
    every = None if predicates is None else np.concatenate(predicates)
    return CalibrationSample(np.r_[positives, corruptions], labels, weights, every)


def base_rate_weights(labels: Labels, base_rate: float) -> Weights:
    """Weights (n,) under which the share of positives is the base rate: w+ = N / P, w- = 1 / alpha - 1, to mean 1."""
    check_base_rate("base_rate", base_rate)
    positives, negatives = float((labels == 1).sum()), float((labels == 0).sum())
    if not positives or not negatives:
        raise FitError("weights for a base rate need positives and negatives: one kind is missing")
    weights: Weights = np.where(labels == 1, negatives / positives, 1 / base_rate - 1)
    weights /= weights.mean()
    return weights
