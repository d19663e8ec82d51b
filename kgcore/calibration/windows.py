"""Confidence limits of a probability from windows of scores, in bootstrap replicates of a weighted sample."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.stats import norm

from kgcore.arrays import Floats, Scores
from kgcore.calibration.band import CONFIDENCE, MOST_POINTS, Band
from kgcore.calibration.sample import CalibrationSample

_TAIL = (1 - CONFIDENCE) / 2
ADDED = float(norm.isf(_TAIL)) ** 2 / 2  # rows that are added against a limit, z^2 / 2


@dataclass(frozen=True)
class Windows:
    """A window of scores below, and one above, each of m scores.

    The only assumption is that the probability q(f) is non-decreasing in the score f. Then the share of positives in a
    window below f is at most q(f), and in a window above f at least q(f). So limits of these shares are limits of q(f),
    whatever the calibrator is (Yang & Barber, Electronic Journal of Statistics 13, 2019). A window has the share
    n^(-1/3) of the weight, for the effective number n of rows of the smaller label.

    scores  (m,) ascending
    below   (m,) start of the window below; it ends at the score
    above   (m,) end of the window above; it starts at the score
    """

    scores: Floats
    below: Floats
    above: Floats

    @classmethod
    def of(cls, sample: CalibrationSample, rows: float) -> Self:
        """Return the windows of up to MOST_POINTS scores of a sample. `rows` is n."""
        points = np.unique(np.quantile(sample.scores, np.linspace(0, 1, MOST_POINTS), method="nearest"))
        order = np.argsort(sample.scores, kind="stable")
        scores, mass = sample.scores[order], np.cumsum(sample.weights[order])
        size = mass[-1] * rows ** (-1 / 3)
        last = np.searchsorted(scores, points, side="right") - 1
        first = np.searchsorted(scores, points, side="left")
        before = np.r_[0.0, mass][first]
        below = np.searchsorted(mass, mass[last] - size, side="left")
        above = np.searchsorted(mass, before + size, side="left").clip(max=len(scores) - 1)
        return cls(points, scores[below], scores[above])

    def shares(self, sample: CalibrationSample) -> tuple[Floats, Floats]:
        """Return the share of positives in each window below (m,) and above (m,).

        The share below has ADDED further negatives, the share above ADDED further positives, of the greatest weight of
        a row with this label. Without them, the limits of rare labels would be too narrow (Agresti & Coull, American
        Statistician 52, 1998).
        """
        order = np.argsort(sample.scores, kind="stable")
        scores, weights, labels = sample.scores[order], sample.weights[order], sample.labels[order]
        every, true = np.r_[0.0, np.cumsum(weights)], np.r_[0.0, np.cumsum(weights * labels)]

        def between(start: Scores, stop: Scores) -> tuple[Floats, Floats]:
            i, j = np.searchsorted(scores, start, side="left"), np.searchsorted(scores, stop, side="right")
            return every[j] - every[i], true[j] - true[i]

        negative, positive = (ADDED * float(weights[labels == label].max()) for label in (0, 1))
        in_below, true_below = between(self.below, self.scores)
        in_above, true_above = between(self.scores, self.above)
        return true_below / (in_below + negative), (true_above + positive) / (in_above + positive)

    def band(self, below: Floats, above: Floats, own: Floats) -> Band:
        """Return the limits from the shares (replicates, m) of all replicates. They include the probabilities `own`."""
        low, high = np.quantile(below, _TAIL, axis=0), np.quantile(above, 1 - _TAIL, axis=0)
        return Band(self.scores, np.minimum(low, own), np.maximum(high, own))
