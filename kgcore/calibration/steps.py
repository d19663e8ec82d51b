"""Step functions of the score: what binning calibrators have in common."""

from typing import Any, Self

import numpy as np

from kgcore.arrays import Ints, Probabilities, Scores, Weights
from kgcore.calibration.base import Calibrator
from kgcore.calibration.pav import LEVEL


def equal_mass(weights: Weights, bins: int) -> Ints:
    """Where bins of equal weight start (b,), first 0, b <= bins, over the weights (m,) of increasing scores.

    A score belongs to the bin that the middle of its weight falls into; none is split, and a bin that no middle falls
    into does not exist.
    """
    middles = (np.cumsum(weights) - weights / 2) / weights.sum()
    place = np.floor(middles * bins + 1e-9)  # rounding moves no score over an edge
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(place)) + 1]
    return starts


class Steps(Calibrator):
    """q is constant between neighbouring edges.

    edges (b - 1,) increasing, probabilities (b,) non-decreasing; a score on an edge belongs below it.
    """

    def __init__(self, edges: list[float], probabilities: list[float]) -> None:
        self.edges = np.asarray(edges, dtype=np.float64)
        self.probabilities = np.asarray(probabilities, dtype=np.float64)

    @classmethod
    def through(cls, scores: Scores, levels: Probabilities) -> Self:
        """The steps with the non-decreasing levels (m,) at increasing scores (m,), edges half-way where they rise."""
        rises = np.flatnonzero(np.diff(levels) > LEVEL)
        low, high = scores[rises], scores[rises + 1]
        middle = low / 2 + high / 2
        edges = np.where(middle < high, middle, low)
        return cls(edges.tolist(), levels[np.r_[0, rises + 1]].tolist())

    def predict(self, scores: Scores) -> Probabilities:
        q: Probabilities = self.probabilities[np.searchsorted(self.edges, scores)]
        return q

    def parameters(self) -> dict[str, Any]:
        return {"edges": self.edges.tolist(), "probabilities": self.probabilities.tolist()}
