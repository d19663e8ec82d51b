"""Inductive Venn-Abers: isotonic regression twice, once for each label that the triple may have."""

from typing import Any, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import shift
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("venn_abers")
class VennAbers(Calibrator):
    """q = p1 / (1 - p0 + p1), p0 and p1 being what isotonic regression says of the score once it has joined the sample
    as a negative, and as a positive.

    Vovk & Petej, UAI 2014; Vovk, Petej & Fedorova, NIPS 2015: one of p0 and p1 is calibrated exactly, in samples of any
    size, if rows are exchangeable; q is their minimax merger under log loss, and never 0 or 1 within the sample. Both
    are computed for every place in the sample at once, so that a prediction is two binary searches.

    Rows are exchangeable as they were drawn, so the fit takes no weights: p0 and p1 are told about the sample's base
    rate by `shift`, which is exact where the rows of a label weigh the same, as in ground-truth and synthetic samples.
    Of other weights only what they make of the base rate counts.

    lower_scores (m,), lower (m,)  p0 from that score on, up to the next; 0 below the first
    upper_scores (k,), upper (k,)  p1 above the score before, up to that score; 1 above the last
    """

    def __init__(
        self, lower_scores: list[float], lower: list[float], upper_scores: list[float], upper: list[float]
    ) -> None:
        self.lower_scores, self.lower = np.asarray(lower_scores, dtype=np.float64), np.asarray(lower, dtype=np.float64)
        self.upper_scores, self.upper = np.asarray(upper_scores, dtype=np.float64), np.asarray(upper, dtype=np.float64)

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        scores, place = np.unique(sample.scores, return_inverse=True)
        rows = np.bincount(place)
        positives = np.bincount(place[sample.labels == 1], minlength=len(rows))
        upper = levels_of_a_positive(rows, positives)
        lower = 1 - levels_of_a_positive(rows[::-1], (rows - positives)[::-1])[::-1]
        raw, rate = float(sample.labels.mean()), sample.base_rate
        rises = np.diff(lower) > 0
        first = np.r_[True, rises]
        last = np.r_[np.diff(upper) > 0, True]
        return cls(
            scores[first].tolist(),
            shift(lower[first], raw, rate).tolist(),
            scores[last].tolist(),
            shift(upper[last], raw, rate).tolist(),
        )

    def interval(self, scores: Scores) -> tuple[Probabilities, Probabilities]:
        """Scores (n,) -> p0 (n,) and p1 (n,), 0 <= p0 <= p1 <= 1: how much one more triple could move the answer."""
        p0 = np.r_[0.0, self.lower][np.searchsorted(self.lower_scores, scores, side="right")]
        p1 = np.r_[self.upper, 1.0][np.searchsorted(self.upper_scores, scores, side="left")]
        return p0, p1

    def predict(self, scores: Scores) -> Probabilities:
        p0, p1 = self.interval(scores)
        q: Probabilities = p1 / (1 - p0 + p1)
        return q

    def parameters(self) -> dict[str, Any]:
        return {
            "lower_scores": self.lower_scores.tolist(),
            "lower": self.lower.tolist(),
            "upper_scores": self.upper_scores.tolist(),
            "upper": self.upper.tolist(),
        }


def levels_of_a_positive(rows: Ints, positives: Ints) -> Floats:
    """What isotonic regression says of one more positive at each of k distinct scores (k,), non-decreasing, in (0, 1].

    rows (k,), positives (k,): the counts at the scores, increasing in the score

    Isotonic regression is the slope of the greatest convex minorant of the cumulative sums (rows, positives); the new
    positive is a step (1, 1) in their path, and its level the slope of the edge above that step. Moving the step past
    one score moves one point of the path, and the left end of that edge never moves back: O(k) in all, after the
    minorant is known (Vovk, Petej & Fedorova 2015, algorithms 1 and 2). Counts are whole, so corners are exact.
    """
    before = [(0, 0), *zip(np.cumsum(rows).tolist(), np.cumsum(positives).tolist(), strict=True)]
    minorant: list[tuple[int, int]] = []  # from right to left: its last entry is the left end of the edge
    for x, y in reversed(before):
        _push(minorant, (x + 1, y + 1))
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
    """Add a point on the left of a minorant, whose corners that no longer bend upwards go."""
    x, y = point
    while len(minorant) > 1:
        (u, v), (right, top) = minorant[-1], minorant[-2]
        if (v - y) * (right - u) < (top - v) * (u - x):
            break
        minorant.pop()
    minorant.append(point)
