"""The contract of a pool: the probabilities of several calibrated members become one."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from kgcore.arrays import Floats, Labels, Weights, as_floats, as_labels, as_weights
from kgcore.errors import InputError


class Pool(ABC):
    """A weight for each member (m,), none negative, and the log-odds that come of them.

    `fit` minimises a weighted log loss that is convex in the weights. Pooled probabilities need another calibration:
    a linear pool of calibrated members is not confident enough (Ranjan & Gneiting 2010).
    """

    def __init__(self, weights: list[float]) -> None:
        self.weights = as_floats("pool weights", weights)
        if not len(weights) or (self.weights < 0).any():
            raise InputError(f"pool weights are {weights}: at least one is needed, and none below 0")

    @classmethod
    @abstractmethod
    def fit(cls, members: Floats, labels: Labels, weights: Weights) -> Self:
        """The pool of members (n, m), probabilities above 0 and below 1, whose log loss on labels (n,) with sample
        weights (n,) is lowest. Raises FitError when the fit does not converge."""

    @abstractmethod
    def log_odds(self, members: Floats) -> Floats:
        """Members' probabilities (n, m), above 0 and below 1 -> pooled log-odds (n,), non-decreasing in each member."""

    @property
    def shares(self) -> Floats:
        """The weights (m,) scaled to sum 1; equal ones where all are 0."""
        total = self.weights.sum()
        return self.weights / total if total > 0 else np.full(len(self.weights), 1 / len(self.weights))

    def parameters(self) -> dict[str, Any]:
        """What the class makes the same pool from, as JSON holds it."""
        return {"weights": self.weights.tolist()}


def checked(members: Floats, labels: Labels, weights: Weights) -> tuple[Floats, Labels, Weights]:
    """The three arrays, sample weights scaled to sum 1. Raises InputError for shapes or values that cannot be."""
    q = as_members(members)
    y, u = as_labels(labels, len(q)), as_weights(weights, len(q))
    return q, y, u / u.sum()


def as_members(members: Floats) -> Floats:
    """The values as probabilities (n, m), above 0 and below 1. Raises InputError otherwise."""
    q = np.asarray(members, dtype=np.float64)
    if q.ndim != 2 or not q.size:
        raise InputError(f"members have shape {q.shape}: (n, m) is needed, a column each")
    if not ((q > 0) & (q < 1)).all():
        raise InputError(f"members to be pooled lie above 0 and below 1: found {q.min():g} to {q.max():g}")
    return q
