"""Confidence limits of a calibrated probability, from the finite calibration sample."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import beta

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import shift

CONFIDENCE = 0.95
MOST_POINTS = 512  # largest number of scores at which limits are stored
WINDOWS = (0.25, 1.0, 4.0)  # window sizes, in multiples of n^(2/3)


@dataclass(frozen=True)
class Band:
    """Pointwise confidence limits of the share of positives at a score.

    The only assumption is that this share, q(f), is non-decreasing in the score f. Then the share in a window of rows
    with scores up to f is at most q(f) in expectation, so a lower confidence limit of the window's share is a lower
    limit of q(f). In the same way a window of rows with scores from f gives an upper limit. The limits of a window are
    those of Clopper & Pearson (Biometrika 26, 1934). Three windows are used, of n^(2/3) / 4, n^(2/3) and 4 n^(2/3)
    rows; the best of the three limits counts, each at a third of the error level (Bonferroni). The idea of averaging
    over windows under monotonicity is that of Yang & Barber (Electronic Journal of Statistics 13, 2019). Rows count
    as independent, although the corruptions of one positive are not.

    In a weighted sample the weight of a row depends only on its label, so the limits are those of the unweighted rows,
    shifted to the sample's base rate.

    scores  (m,) ascending
    low     (m,) lower limit for scores from scores_i up to the next one; below scores_0 it is 0
    high    (m,) upper limit for scores above the previous one up to scores_i; above the last score it is 1
    """

    scores: Floats
    low: Floats
    high: Floats

    @classmethod
    def fit(cls, sample: CalibrationSample, confidence: float = CONFIDENCE, most_points: int = MOST_POINTS) -> Self:
        """Compute the limits from a sample. Each of the two limits errs with probability (1 - confidence) / 2.

        most_points  largest number of scores at which limits are stored
        """
        order = np.argsort(sample.scores, kind="stable")
        scores, labels = sample.scores[order], sample.labels[order]
        n, positives = len(scores), np.r_[0, np.cumsum(labels)]
        points = _points(scores, labels, most_points)
        first, last = (np.searchsorted(scores, points, side=side) for side in ("left", "right"))
        single = last - first == 1  # the row of a point is left out, because its label made it a point
        after, before = np.where(single, first, last), np.where(single, last, first)
        low, high = np.zeros(len(points)), np.ones(len(points))
        level = (1 - confidence) / 2 / len(WINDOWS)
        for multiple in WINDOWS:
            size = max(1, round(multiple * n ** (2 / 3)))
            start = np.searchsorted(scores, scores[np.maximum(after - size, 0)], side="left")  # whole groups of ties
            low = np.maximum(low, lower_limits(positives[after] - positives[start], after - start, level))
            stop = np.searchsorted(scores, scores[np.minimum(before + size, n) - 1], side="right")
            negatives = (stop - before) - (positives[stop] - positives[before])
            high = np.minimum(high, 1 - lower_limits(negatives, stop - before, level))
        share = float(labels.mean())
        return cls(points, shift(low, share, sample.base_rate), shift(high, share, sample.base_rate))

    def limits(self, scores: Scores) -> tuple[Probabilities, Probabilities]:
        """Return the lower and the upper limit (n,) at scores (n,).

        Where the sample contradicts monotonicity, the limit from the rows below a score can be above the limit from the
        rows above it. Then the interval reaches from one to the other.
        """
        below = np.r_[0.0, self.low][np.searchsorted(self.scores, scores, side="right")]
        above = np.r_[self.high, 1.0][np.searchsorted(self.scores, scores)]
        return np.minimum(below, above), np.maximum(below, above)

    def to_json(self) -> dict[str, list[float]]:
        """Return the band as plain JSON."""
        return {"scores": self.scores.tolist(), "low": self.low.tolist(), "high": self.high.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the band that `to_json` wrote."""
        return cls(*(np.array(data[name], dtype=np.float64) for name in ("scores", "low", "high")))


def _points(scores: Scores, labels: Labels, most: int) -> Floats:
    """Return at most `most` ascending scores: quantiles of the positives' scores and of the negatives'."""
    levels = np.linspace(0, 1, most // 2)
    own = [np.quantile(scores[labels == label], levels, method="nearest") for label in (0, 1)]
    return np.unique(np.concatenate(own))


def lower_limits(successes: Floats, trials: Ints, level: float) -> Floats:
    """Return the lower Clopper-Pearson limits (m,) of a share. Each exceeds the true share with probability `level`."""
    return np.where(successes > 0, beta.ppf(level, np.maximum(successes, 1), trials - successes + 1), 0.0)
