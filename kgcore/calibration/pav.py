"""Pool-adjacent-violators: the blocks of scores on which the best non-decreasing curve is flat."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights

LEVEL = 1e-12  # what is nearer than this is one level: rounding splits no block


@dataclass(frozen=True)
class Pooled:
    """A sample at its distinct scores, arrays (m,): equal scores can only have equal probabilities.

    scores     increasing
    weights    all weight at the score
    positives  the weight of its positives
    """

    scores: Scores
    weights: Weights
    positives: Weights

    @property
    def means(self) -> Probabilities:
        """Share of positives at each score, by weight."""
        return share(self.positives, self.weights)


def pool(scores: Scores, labels: Labels, weights: Weights) -> Pooled:
    """Scores (n,), labels (n,) 0/1 and weights (n,) at the m distinct scores."""
    distinct, place = np.unique(scores, return_inverse=True)
    summed: Weights = np.bincount(place, weights).astype(np.float64)
    positives: Weights = np.bincount(place, weights * labels).astype(np.float64)
    return Pooled(distinct, summed, positives)


def block_starts(means: Probabilities, weights: Weights) -> Ints:
    """Where the blocks start (b,), first 0, of the non-decreasing curve that minimises
    sum_i weights_i (curve_i - means_i)^2 over means (m,) and weights (m,).

    Neighbouring blocks with levels less than 1e-12 apart are one.
    """
    from sklearn.isotonic import isotonic_regression  # takes a second to load

    curve = isotonic_regression(means, sample_weight=weights, y_min=0.0, y_max=1.0)
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(curve) > LEVEL) + 1]
    return starts


def share(positives: Weights, weights: Weights) -> Probabilities:
    """positives / weights, within [0, 1] in spite of rounding."""
    shares: Floats = np.clip(positives / weights, 0.0, 1.0)
    return shares
