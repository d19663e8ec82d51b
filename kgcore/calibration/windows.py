"""Confidence limits of a probability from windows of scores, in bootstrap replicates of a weighted sample."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri

from kgcore.arrays import Floats
from kgcore.calibration.band import MOST_POINTS, Band
from kgcore.calibration.sample import CalibrationSample
from kgcore.intervals import CONFIDENCE

_TAIL = (1 - CONFIDENCE) / 2
ADDED = float(ndtri(_TAIL)) ** 2 / 2  # number of rows that are added for a limit, z^2 / 2


@dataclass(frozen=True)
class Windows:
    """A window of scores around each of m scores.

    The share of positives in a narrow window around a score f estimates the probability q(f), whatever the calibrator
    is. A window has at most the share n^(-1/3) of the weight, of the positives' weight, and of the negatives' weight.
    Without the last two, a window would be too wide where a base rate is low: all positives could be in one. Half of a
    window is on each side of f. n is the number of positives or of candidates, whichever is smaller. Near the lowest
    and the highest score a window is smaller, because both halves have the same weight.

    scores  (m,) ascending
    start   (m,) lowest score of the window
    stop    (m,) highest score of the window
    """

    scores: Floats
    start: Floats
    stop: Floats

    @classmethod
    def of(cls, sample: CalibrationSample, rows: float) -> Self:
        """Return the windows of up to MOST_POINTS scores of a sample. `rows` is n."""
        points = np.unique(np.quantile(sample.scores, np.linspace(0, 1, MOST_POINTS), method="nearest"))
        order = np.argsort(sample.scores, kind="stable")
        scores, weights, labels = sample.scores[order], sample.weights[order], sample.labels[order]
        last = np.searchsorted(scores, points, side="right") - 1
        first = np.searchsorted(scores, points, side="left")
        mass = np.cumsum(weights)
        before = np.r_[0.0, mass][first]
        half = np.minimum(before, mass[-1] - mass[last])
        for own in (weights, weights * labels, weights * (1 - labels)):  # all rows, positives, negatives
            part = np.cumsum(own)
            most = part[-1] * rows ** (-1 / 3) / 2
            stop = np.searchsorted(part, part[last] + most, side="left").clip(max=len(scores) - 1)
            start = np.searchsorted(part, np.r_[0.0, part][first] - most, side="right")
            half = np.minimum(half, np.minimum(mass[stop] - mass[last], before - np.r_[0.0, mass][start]))
        start = np.searchsorted(mass, before - half, side="left")
        stop = np.searchsorted(mass, mass[last] + half, side="left").clip(max=len(scores) - 1)
        return cls(points, scores[start], scores[stop])

    def shares(self, sample: CalibrationSample) -> tuple[Floats, Floats]:
        """Return a low and a high share of positives in each window, (m,) and (m,).

        The low share is computed with ADDED further negatives, the high share with ADDED further positives. Each of
        them has the greatest weight of a row with this label. Without them, the limits of rare labels would be too
        narrow (Agresti & Coull, American Statistician 52, 1998).
        """
        order = np.argsort(sample.scores, kind="stable")
        scores, weights, labels = sample.scores[order], sample.weights[order], sample.labels[order]
        every, true = np.r_[0.0, np.cumsum(weights)], np.r_[0.0, np.cumsum(weights * labels)]

        first = np.searchsorted(scores, self.start, side="left")
        after = np.searchsorted(scores, self.stop, side="right")
        inside, found = every[after] - every[first], true[after] - true[first]
        negative, positive = (ADDED * float(weights[labels == label].max()) for label in (0, 1))
        return found / (inside + negative), (found + positive) / (inside + positive)

    def band(self, low_shares: Floats, high_shares: Floats, own: Floats) -> Band:
        """Return the limits from the shares (replicates, m) of all replicates. They include the probabilities `own`."""
        low, high = np.quantile(low_shares, _TAIL, axis=0), np.quantile(high_shares, 1 - _TAIL, axis=0)
        # a share can be above 1 by rounding
        return Band(self.scores, np.minimum(low, own).clip(0, 1), np.maximum(high, own).clip(0, 1))
