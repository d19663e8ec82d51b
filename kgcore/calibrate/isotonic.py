"""Isotonic regression: the best non-decreasing curve, without an assumption about its shape."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.sample import CalibrationSample, shift
from kgcore.registries import CALIBRATORS

LEVEL_TOLERANCE = 1e-12  # levels that differ by less count as equal, so that rounding splits no block


@CALIBRATORS.register("isotonic")
class Isotonic(Calibrator):
    """The curve q that minimises sum_i w_i (q(f_i) - y_i)^2 over all non-decreasing q.

    Zadrozny & Elkan, KDD 2002; paper, section 4. The fit divides the scores into runs (`ScoreRuns`) and then pools
    adjacent violators among the runs.

    The curve is flat on each block of scores, linear between neighbouring blocks, and constant below the first and
    above the last score of the sample.

    scores_         (m,) increasing: the first and the last score of each block
    probabilities_  (m,) non-decreasing, in [0, 1]: the level at each of these scores
    """

    fitted: ClassVar[tuple[str, ...]] = ("scores", "probabilities")
    scores_: Scores
    probabilities_: Probabilities

    def fit_sample(self, sample: CalibrationSample) -> Self:
        from sklearn.isotonic import isotonic_regression  # loads slowly, and a fitted curve does not need it

        runs = score_runs(sample.scores, sample.labels, sample.weights)
        starts = block_starts(isotonic_regression(runs.means, sample_weight=runs.totals))
        return self.set_blocks(runs, starts, positive_share(*runs.pooled(starts)))

    def set_blocks(self, runs: "ScoreRuns", starts: Ints, levels: Probabilities) -> Self:
        """Set the curve that is flat on each of b blocks of runs.

        starts  (b,) index of the first run of each block; the first is 0
        levels  (b,) the probability on each block
        """
        ends = np.stack([runs.first[starts], runs.last[np.r_[starts[1:], len(runs.first)] - 1]], axis=1).ravel()
        scores, place = np.unique(ends, return_index=True)
        return self.set_fitted(scores=scores, probabilities=np.repeat(levels, 2)[place])

    def calibrate(self, scores: Scores) -> Probabilities:
        return np.interp(scores, self.scores_, self.probabilities_)


@CALIBRATORS.register("smoothed_isotonic")
class SmoothedIsotonic(Isotonic):
    """Isotonic regression with one prior row in each block, so no probability is 0 or 1 and the log loss stays finite:

        q = (m + r) / (n + 1) for a block of n rows with m positives, r the share of positives in the sample.

    `shift` then moves q to the base rate of the sample. If rows have weights, n, m and r are effective counts (see
    `effective_weights`). If the prior rows make q fall from one block to the next, these blocks are merged, together
    with their prior rows. Between and outside the blocks, the curve is that of `Isotonic`.

    The prior is the m-estimate of Cestnik, ECAI 1990, with m = 1. The order of weighting and shifting does not matter
    for synthetic weights: one prior row of mean weight in each block, whose label is the weighted base rate, would give
    the same result. A weighted row is still one observation: a row of weight 2 counts double compared with the other
    rows of its block, but not compared with the prior.
    """

    def fit_sample(
        self, sample: CalibrationSample, expected: Probabilities | None = None, prior_rows: float = 1.0
    ) -> Self:
        """Fit the curve, perhaps with other prior rows in each block.

        expected    (n,) prior probabilities of the rows at the base rate of `effective_weights`: r is their mean in the
                    block. None: r is as above
        prior_rows  number of prior rows in each block, above 0
        """
        from sklearn.isotonic import isotonic_regression

        weights = sample.effective_weights
        runs = score_runs(sample.scores, sample.labels, weights)
        rate = float(runs.weights[:, 1].sum() / runs.weights.sum())
        starts = block_starts(isotonic_regression(runs.means, sample_weight=runs.totals))
        positives, rows = runs.pooled(starts)
        shares = np.full(len(starts), rate)
        if expected is not None:
            block = np.searchsorted(runs.first[starts], sample.scores, side="right") - 1
            shares = np.bincount(block, weights * expected) / np.bincount(block, weights)
        positives, rows = positives + prior_rows * shares, rows + prior_rows
        merged = block_starts(isotonic_regression(positive_share(positives, rows), sample_weight=rows))
        levels = positive_share(np.add.reduceat(positives, merged), np.add.reduceat(rows, merged))
        return self.set_blocks(runs, starts[merged], shift(levels, rate, sample.base_rate))


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
        """Return the weight of the positives and the total weight of each block (b,), given its first run (b,)."""
        negatives, positives = np.add.reduceat(self.weights, starts).T
        return positives, negatives + positives


def score_runs(scores: Scores, labels: Labels, weights: Weights) -> ScoreRuns:
    """Divide scores (n,), labels (n,) 0/1 and weights (n,) into runs. Both labels occur."""
    rarer = 1.0 if 2 * labels.sum() <= len(labels) else 0.0
    anchors = np.unique(scores[labels == rarer])
    if len(anchors) > len(scores) / 8:  # hardly fewer runs than distinct scores, which are found faster
        distinct, place = np.unique(scores, return_inverse=True)
        totals, positives = (np.bincount(place, column) for column in (weights, weights * labels))
        return ScoreRuns(distinct, distinct, np.stack([totals - positives, positives], axis=1))
    size = len(anchors) + 1
    first, last = np.full(size, np.inf), np.full(size, -np.inf)
    place = np.searchsorted(anchors, scores, side="right" if rarer else "left")
    np.minimum.at(first, place, scores)
    np.maximum.at(last, place, scores)
    sums = [np.bincount(place, weights * is_label, size) for is_label in (1 - labels, labels)]
    filled = last >= first  # no row is below the first score of positives, or above the last one of negatives
    return ScoreRuns(first[filled], last[filled], np.stack(sums, axis=1, dtype=np.float64)[filled])


def block_starts(curve: Probabilities) -> Ints:
    """Return the index of the first score in each block of a non-decreasing curve (m,): (b,); the first is 0.

    A block is a run of scores on which the curve is flat. Levels that differ by 1e-12 or less are one block.
    """
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(curve) > LEVEL_TOLERANCE) + 1]
    return starts


def positive_share(positives: Weights, weights: Weights) -> Probabilities:
    """Return positives / weights (m,), clipped to [0, 1] because rounding can leave this range."""
    return np.clip(positives / weights, 0.0, 1.0)
