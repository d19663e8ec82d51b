"""Pool adjacent violators: the blocks of scores on which the best non-decreasing curve is flat."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights
from kgcore.calibration.stream import SampleStream

LEVEL_TOLERANCE = 1e-12  # levels that differ by less count as equal, so that rounding splits no block


@dataclass(frozen=True)
class ScoreRuns:
    """A sample divided into r runs of neighbouring scores. Isotonic regression never divides a run.

    A run is a score of positives and the scores above it up to the next score of positives. The scores above it belong
    to negatives alone, so a curve that falls there would fit better than any that rises: pool adjacent violators merges
    them with the score below. If the sample has fewer negatives than positives, a run ends with a score of negatives
    instead, by the same argument. So a sample of any size is pooled in the memory of its rarer label.

    first, last  (r,) lowest and highest score of the run, increasing
    weights      (r, 2) total weight of the negatives and of the positives
    """

    first: Scores
    last: Scores
    weights: Floats

    @property
    def means(self) -> Probabilities:
        """Return the share of positives in each run (r,), by weight, in [0, 1]."""
        return positive_share(self.weights[:, 1], self.weights.sum(axis=1))

    def pooled(self, starts: Ints) -> tuple[Weights, Weights]:
        """Return the weight of the positives and the total weight of each block (b,).

        starts  (b,) index of the first run of each block; the first is 0
        """
        negatives, positives = np.add.reduceat(self.weights, starts).T
        return positives, negatives + positives


def score_runs(stream: SampleStream) -> ScoreRuns:
    """Divide a stream into runs. Raises FitError if all labels are equal.

    The stream is read twice after `totals`. The memory is one block and the distinct scores of the rarer label.
    """
    negatives, positives = stream.totals.rows
    rarer = 1.0 if positives <= negatives else 0.0
    anchors = np.unique(np.concatenate([np.unique(f[y == rarer]) for f, y, _ in stream.blocks()]))
    first, last = np.full(len(anchors) + 1, np.inf), np.full(len(anchors) + 1, -np.inf)
    weights = np.zeros((2, len(anchors) + 1))
    for f, y, w in stream.blocks():
        order = np.argsort(f)
        f, y, w = f[order], y[order], w[order]
        place = np.searchsorted(anchors, f, side="right" if rarer else "left")
        starts = np.r_[0, np.flatnonzero(np.diff(place)) + 1]
        runs = place[starts]
        first[runs] = np.minimum(first[runs], f[starts])
        last[runs] = np.maximum(last[runs], f[np.r_[starts[1:], len(f)] - 1])
        for row, values in zip(weights, (w * (1 - y), w * y), strict=True):
            row[runs] += np.add.reduceat(values, starts)
    found = last >= first  # no row is below the first score of positives, or above the last one of negatives
    return ScoreRuns(first[found], last[found], weights[:, found].T)


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
    from sklearn.isotonic import isotonic_regression

    curve = isotonic_regression(means, sample_weight=weights, y_min=0.0, y_max=1.0)
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(curve) > LEVEL_TOLERANCE) + 1]
    return starts


def positive_share(positives: Weights, weights: Weights) -> Probabilities:
    """Return positives / weights (m,), clipped to [0, 1] because rounding can leave this range."""
    shares: Floats = np.clip(positives / weights, 0.0, 1.0)
    return shares
