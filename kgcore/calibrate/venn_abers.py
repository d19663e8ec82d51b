"""Inductive Venn-Abers: two isotonic regressions, one for each possible label of the triple."""

from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Scores, Weights
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.sample import CalibrationSample, shift
from kgcore.registries import CALIBRATORS

STEPS = 1024
STEPS_OF_COUNTS = 2**20  # if rows have counts, many of them may have a small weight


@CALIBRATORS.register("venn_abers")
class VennAbers(Calibrator):
    """The inductive Venn-Abers predictor: q = p1 / (1 - p0 + p1).

    p0 is the value of isotonic regression at the score f after the row (f, label 0) is added to the sample. p1 is the
    value after the row (f, label 1) is added instead.

    Vovk & Petej, UAI 2014; Vovk, Petej & Fedorova, NIPS 2015. If the rows are exchangeable, one of p0 and p1 is exactly
    calibrated, in samples of any size. q is the minimax choice between p0 and p1 under log loss, and is never 0 or 1
    for a score within the range of the sample. The fit computes p0 and p1 for every position between the scores of the
    sample, so a prediction needs only two binary searches.

    Rows whose weight depends on the label are not exchangeable, so a row counts with its effective weight (see
    `effective_weights`), and `shift` then moves p0 and p1 to the base rate of the sample. If all rows of a label have
    the same weight, each row counts as 1, and this is exact. Other weights, such as those that balance relations, count
    in steps of 1/1024, or of 2^-20 if rows have counts; then the guarantee is approximate.

    lower_scores_, lower_  (m,) increasing scores, and p0 from each of them up to the next one; p0 is 0 below the first
    upper_scores_, upper_  (k,) increasing scores, and p1 from above the previous one up to each; p1 is 1 above the last
    """

    fitted = ("lower_scores", "lower", "upper_scores", "upper")
    lower_scores_: Scores
    lower_: Probabilities
    upper_scores_: Scores
    upper_: Probabilities

    def fit_sample(self, sample: CalibrationSample) -> Self:
        scores, place = np.unique(sample.scores, return_inverse=True)
        steps = STEPS if sample.counts is None else STEPS_OF_COUNTS
        counts, one = whole_counts(sample.effective_weights, steps)
        rows, positives = (np.bincount(place, c).astype(np.int64) for c in (counts, counts * sample.labels))
        upper = levels_of_a_positive(rows, positives, one)
        lower = 1 - levels_of_a_positive(rows[::-1], (rows - positives)[::-1], one)[::-1]
        raw, rate = float(positives.sum() / rows.sum()), sample.base_rate
        rises = np.diff(lower) > 0
        first = np.r_[True, rises]
        last = np.r_[np.diff(upper) > 0, True]
        return self.set_fitted(
            lower_scores=scores[first],
            lower=shift(lower[first], raw, rate),
            upper_scores=scores[last],
            upper=shift(upper[last], raw, rate),
        )

    def interval(self, scores: Scores) -> tuple[Probabilities, Probabilities]:
        """Return p0 (n,) and p1 (n,) for scores (n,), 0 <= p0 <= p1 <= 1.

        The interval from p0 to p1 is wide where one more labelled triple would strongly change the probability.
        """
        p0 = np.r_[0.0, self.lower_][np.searchsorted(self.lower_scores_, scores, side="right")]
        p1 = np.r_[self.upper_, 1.0][np.searchsorted(self.upper_scores_, scores, side="left")]
        return p0, p1

    def calibrate(self, scores: Scores) -> Probabilities:
        p0, p1 = self.interval(scores)
        return p1 / (1 - p0 + p1)


def whole_counts(weights: Weights, steps: int = STEPS) -> tuple[Ints, int]:
    """Return weights (n,) as whole numbers (n,) of at least 1, and the number that stands for a weight of 1.

    Effective weights that are all 1, up to rounding, become 1. Others become multiples of 1 / steps.
    """
    one = 1 if np.allclose(weights, 1, rtol=0, atol=1e-9) else steps
    counts: Ints = np.maximum(np.rint(weights * one), 1).astype(np.int64)
    return counts, one


def levels_of_a_positive(rows: Ints, positives: Ints, one: int = 1) -> Floats:
    """Add one positive at each of k distinct scores in turn, and return the values of isotonic regression there.

    The i-th value is the one at the i-th score, after one positive was added at this score only. The values (k,) are
    called levels; they are non-decreasing and in (0, 1].

    rows       (k,) rows at each score, in increasing order of the score
    positives  (k,) positives among these rows
    one        the number of rows that the added positive counts as

    The points (cumulative rows, cumulative positives) form a path. The level of isotonic regression is the slope of the
    greatest convex minorant of this path. The added positive is a step (one, one) in the path, and its level is the
    slope of the minorant's edge at this step. When the step moves from one score to the next, one point of the path
    moves, and the left end of the edge never moves to the left. So after the first minorant the remaining work is O(k)
    (Vovk, Petej & Fedorova 2015, algorithms 1 and 2). Counts are integers, so corners are compared exactly.
    """
    before = [(0, 0), *zip(np.cumsum(rows).tolist(), np.cumsum(positives).tolist(), strict=True)]
    minorant: list[
        tuple[int, int]
    ] = []  # corners from right to left; the last entry is the left end of the edge at the step
    for x, y in reversed(before):
        _push(minorant, (x + one, y + one))
    _push(minorant, before[0])
    levels = []
    for point in before[1:]:
        (x, y), (right, top) = minorant[-1], minorant[-2]
        levels.append((top - y) / (right - x))
        if (point[1] - y) * (right - x) < (top - y) * (point[0] - x):
            minorant.pop()
            _push(minorant, point)
    return np.array(levels)


def _push(minorant: list[tuple[int, int]], point: tuple[int, int]) -> None:
    """Add a point at the left end of a convex minorant, and remove the corners that are no longer convex."""
    x, y = point
    while len(minorant) > 1:
        (u, v), (right, top) = minorant[-1], minorant[-2]
        if (v - y) * (right - u) < (top - v) * (u - x):
            break
        minorant.pop()
    minorant.append(point)
