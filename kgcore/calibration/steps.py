"""Step functions of the score: the base class of the calibrators that use bins."""

from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Scores, Weights
from kgcore.calibration.base import Calibrator
from kgcore.calibration.pav import LEVEL_TOLERANCE


def equal_mass(weights: Weights, bins: int) -> Ints:
    """Return the index of the first score in each bin (b,), for b <= bins bins of about equal weight; the first is 0.

    weights  (m,) total weight of the rows at each distinct score, in increasing order of the score
    bins     wanted number of bins, at least 1

    All rows with the same score are in one bin: the bin that contains the middle of their weight. Empty bins are
    dropped.
    """
    middles = (np.cumsum(weights) - weights / 2) / weights.sum()
    place = np.floor(middles * bins + 1e-9)  # 1e-9: rounding must not move a score into the bin below
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(place)) + 1]
    return starts


class Steps(Calibrator):
    """A step function: q is constant between neighbouring edges.

    edges_          (b - 1,) increasing; a score on an edge belongs to the bin below it
    probabilities_  (b,) non-decreasing, in [0, 1]
    """

    fitted = ("edges", "probabilities")
    edges_: Floats
    probabilities_: Probabilities

    def set_steps(self, scores: Scores, levels: Probabilities) -> Self:
        """Set the step function that has the non-decreasing levels (m,) at the increasing scores (m,).

        An edge lies half-way between two neighbouring scores where the level rises.
        """
        rises = np.flatnonzero(np.diff(levels) > LEVEL_TOLERANCE)
        low, high = scores[rises], scores[rises + 1]
        middle = low / 2 + high / 2
        edges = np.where(middle < high, middle, low)
        return self.set_fitted(edges=edges, probabilities=levels[np.r_[0, rises + 1]])

    def calibrate(self, scores: Scores) -> Probabilities:
        q: Probabilities = self.probabilities_[np.searchsorted(self.edges_, scores)]
        return q
