"""Pool adjacent violators: the blocks of scores on which the best non-decreasing curve is flat."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights

LEVEL_TOLERANCE = 1e-12  # levels that differ by less count as equal, so that rounding splits no block


@dataclass(frozen=True)
class ScoreRuns:
    """A sample divided into r runs of neighbouring scores. Isotonic regression never divides a run.

    A run is a score of positives and the scores above it up to the next score of positives. The scores above it belong
    to negatives alone, so a curve that falls there would fit better than any that rises: pool adjacent violators merges
    them with the score below. If the sample has fewer negatives than positives, a run ends with a score of negatives
    instead, by the same argument. So no more runs than rows of the rarer label are pooled. If neither label is rare,
    each distinct score is a run.

    first, last  (r,) lowest and highest score of the run, increasing
    weights      (r, 2) total weight of the negatives and of the positives
    """

    first: Scores
    last: Scores
    weights: Floats

    @property
    def totals(self) -> Weights:
        """Return the weight of each run (r,)."""
        totals: Weights = self.weights.sum(axis=1)
        return totals

    @property
    def means(self) -> Probabilities:
        """Return the share of positives in each run (r,), by weight, in [0, 1]."""
        return positive_share(self.weights[:, 1], self.totals)

    def pooled(self, starts: Ints) -> tuple[Weights, Weights]:
        """Return the weight of the positives and the total weight of each block (b,).

        starts  (b,) index of the first run of each block; the first is 0
        """
        negatives, positives = np.add.reduceat(self.weights, starts).T
        return positives, negatives + positives


def score_runs(scores: Scores, labels: Labels, weights: Weights) -> ScoreRuns:
    """Divide scores (n,), labels (n,) 0/1 and weights (n,) into runs. Both labels occur."""
    rarer = 1.0 if 2 * labels.sum() <= len(labels) else 0.0
    anchors = np.unique(scores[labels == rarer])
    if len(anchors) > len(scores) / 8:  # hardly fewer runs than distinct scores, which are found faster
        distinct, place = np.unique(scores, return_inverse=True)
        totals, positives = (np.bincount(place, own) for own in (weights, weights * labels))
        return ScoreRuns(distinct, distinct, np.stack([totals - positives, positives], axis=1))
    size = len(anchors) + 1
    first, last = np.full(size, np.inf), np.full(size, -np.inf)
    place = np.searchsorted(anchors, scores, side="right" if rarer else "left")
    np.minimum.at(first, place, scores)
    np.maximum.at(last, place, scores)
    sums = np.stack([np.bincount(place, weights * own, size) for own in (1 - labels, labels)], axis=1, dtype=np.float64)
    filled = last >= first  # no row is below the first score of positives, or above the last one of negatives
    return ScoreRuns(first[filled], last[filled], sums[filled])


def block_starts(means: Probabilities, weights: Weights) -> Ints:
    """Return the index of the first score in each block of isotonic regression (b,); the first is 0.

    means    (m,) the values to fit, such as shares of positives, in [0, 1], in increasing order of the score
    weights  (m,) positive

    Isotonic regression is the non-decreasing curve that minimises sum_i weights_i (curve_i - means_i)^2. A block is a
    run of scores on which the curve is flat. Neighbouring blocks are merged if their levels differ by 1e-12 or less.
    """
    from sklearn.isotonic import isotonic_regression

    curve = isotonic_regression(means, sample_weight=weights, y_min=0.0, y_max=1.0)
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(curve) > LEVEL_TOLERANCE) + 1]
    return starts


def positive_share(positives: Weights, weights: Weights) -> Probabilities:
    """Return positives / weights (m,), clipped to [0, 1] because rounding can leave this range."""
    shares: Floats = np.clip(positives / weights, 0.0, 1.0)
    return shares
