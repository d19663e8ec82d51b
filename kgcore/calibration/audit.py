"""The audit of a calibration sample: how much the scores of its two labels overlap, and its effective sample size."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kgcore.calibration.sample import CalibrationSample


@dataclass(frozen=True)
class ScoreAudit:
    """Two quantities that describe a calibration sample.

    overlap                P(f(t-) > f(t+)) + P(f(t-) = f(t+)) / 2 = 1 - AUROC, in [0, 1], for the score f of a random
                           negative t- and a random positive t+. Rows count by their `counts`, not by their weights.
                           0: the model scores every positive above every negative. 0.5: the model cannot separate
                           them. If synthetic negatives overlap with the positives far less than labelled negatives do,
                           then synthetic negatives are easier than real mistakes, and the probabilities fitted on them
                           are too confident.
    effective_sample_size  (sum w)^2 / sum w^2 (Kish 1965): the number of equally weighted rows that would carry the
                           same information
    """

    overlap: float
    effective_sample_size: float

    def to_json(self) -> dict[str, Any]:
        """Return both quantities under their names."""
        return asdict(self)


def score_audit(sample: CalibrationSample, soft: bool = False) -> ScoreAudit:
    """Compute the overlap and the effective size of a sample.

    soft  whether the labels are soft (`soft_sample`). Then every row is a positive and a negative, and the overlap is
          weighted
    """
    if soft:
        weights = sample.weights
        return ScoreAudit(_weighted_overlap(sample), float(weights.sum() ** 2 / (weights**2).sum()))
    is_positive = sample.labels == 1
    positives, negatives = np.sort(sample.scores[is_positive]), sample.scores[~is_positive]
    below, up_to = (np.searchsorted(positives, negatives, side) for side in ("left", "right"))
    above = below + (up_to - below) / 2
    share = above.mean() if sample.counts is None else np.average(above, weights=sample.counts[~is_positive])
    overlap = share / len(positives)
    weights = sample.weights
    return ScoreAudit(float(overlap), float(weights.sum() ** 2 / (weights**2).sum()))


def _weighted_overlap(sample: CalibrationSample) -> float:
    """Return the overlap of `ScoreAudit`, where positives and negatives are drawn in proportion to their weights."""
    _, place = np.unique(sample.scores, return_inverse=True)
    positive, negative = (np.bincount(place, np.where(sample.labels == label, sample.weights, 0.0)) for label in (1, 0))
    below = np.cumsum(positive) - positive / 2
    return float(negative @ below / (positive.sum() * negative.sum()))
