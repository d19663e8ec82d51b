"""Pool adjacent violators: the blocks of scores on which the best non-decreasing curve is flat."""

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights

LEVEL_TOLERANCE = 1e-12  # levels that differ by less count as equal, so that rounding splits no block


@dataclass(frozen=True)
class ScoreGroups:
    """A sample grouped by its m distinct scores: triples with equal scores get equal probabilities.

    scores     (m,) increasing
    weights    (m,) total weight at the score
    positives  (m,) weight of the positives at the score
    """

    scores: Scores
    weights: Weights
    positives: Weights

    @property
    def means(self) -> Probabilities:
        """Return the share of positives at each score (m,), by weight, in [0, 1]."""
        return positive_share(self.positives, self.weights)


def group_by_score(scores: Scores, labels: Labels, weights: Weights) -> ScoreGroups:
    """Group scores (n,), labels (n,) 0/1 and weights (n,) by the m distinct scores."""
    distinct, place = np.unique(scores, return_inverse=True)
    summed: Weights = np.bincount(place, weights).astype(np.float64)
    positives: Weights = np.bincount(place, weights * labels).astype(np.float64)
    return ScoreGroups(distinct, summed, positives)


def block_starts(means: Probabilities, weights: Weights) -> Ints:
    """Return the index of the first score in each block of isotonic regression (b,); the first is 0.

    means    (m,) the values to fit, such as shares of positives, in [0, 1], in increasing order of the score
    weights  (m,) positive

    Isotonic regression is the non-decreasing curve that minimises sum_i weights_i (curve_i - means_i)^2. A block is a
    run of scores on which the curve is flat. Neighbouring blocks are merged if their levels differ by 1e-12 or less.
    """
    curve = isotonic_regression(means, sample_weight=weights, y_min=0.0, y_max=1.0)
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(curve) > LEVEL_TOLERANCE) + 1]
    return starts


def positive_share(positives: Weights, weights: Weights) -> Probabilities:
    """Return positives / weights (m,), clipped to [0, 1] because rounding can leave this range."""
    shares: Floats = np.clip(positives / weights, 0.0, 1.0)
    return shares
