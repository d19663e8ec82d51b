"""The abstract class of opinion pools, which combine the probabilities of several calibrated members."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from kgcore.arrays import Floats, Labels, Weights, as_floats, as_labels, as_weights
from kgcore.errors import InputError


class Pool(ABC):
    """An opinion pool: it has a weight for each member, and combines their probabilities into pooled log-odds.

    `fit` minimises a weighted log loss that is convex in the weights. Pooled probabilities must be calibrated again.
    For example, a linear pool of calibrated members is underconfident (Ranjan & Gneiting 2010).

    weights  (m,) at least 0. Raises InputError for an empty list and for negative weights.
    """

    def __init__(self, weights: list[float]) -> None:
        self.weights = as_floats("pool weights", weights)
        if not len(weights) or (self.weights < 0).any():
            raise InputError(f"pool weights are {weights}: at least one is needed, and each must be at least 0")

    @classmethod
    @abstractmethod
    def fit(cls, members: Floats, labels: Labels, weights: Weights) -> Self:
        """Fit the pool: choose the weights of the members that give the lowest weighted log loss.

        members  (n, m) probabilities above 0 and below 1
        labels   (n,) 0/1
        weights  (n,) sample weights, positive, of any scale

        Raises InputError for shapes or values out of range, FitError if the fit does not converge.
        """

    @abstractmethod
    def log_odds(self, members: Floats) -> Floats:
        """Pool probabilities of the members (n, m), above 0 and below 1, into log-odds (n,).

        The log-odds are non-decreasing in each member. Raises InputError for values out of range.
        """

    @property
    def shares(self) -> Floats:
        """Return the weights (m,) scaled to sum 1. If all weights are 0, return equal shares."""
        total = self.weights.sum()
        return self.weights / total if total > 0 else np.full(len(self.weights), 1 / len(self.weights))

    def parameters(self) -> dict[str, Any]:
        """Return the constructor arguments of the pool as JSON values."""
        return {"weights": self.weights.tolist()}


def weighted_sum(columns: Floats, weights: Floats) -> Floats:
    """Return sum_j w_j x_j for each row (n,): columns x (n, m), weights w (m,).

    A matrix product may add in an order that depends on the number of rows. Here a row has the same sum, to the last
    bit, whichever rows are summed with it.
    """
    total: Floats = columns[:, 0] * weights[0]
    for column, weight in zip(columns.T[1:], weights[1:], strict=True):
        total = total + column * weight
    return total


def as_fit_data(members: Floats, labels: Labels, weights: Weights) -> tuple[Floats, Labels, Weights]:
    """Check members (n, m), labels (n,) and sample weights (n,), and scale the weights to sum 1.

    Raises InputError for shapes or values out of range.
    """
    q = as_members(members)
    y, u = as_labels(labels, len(q)), as_weights(weights, len(q))
    return q, y, u / u.sum()


def as_members(members: Floats) -> Floats:
    """Check that members is an array (n, m) of probabilities above 0 and below 1, and return it as float64.

    Raises InputError for other shapes or values.
    """
    q = np.asarray(members, dtype=np.float64)
    if q.ndim != 2 or not q.size:
        raise InputError(f"members have shape {q.shape}: (n, m) is needed, one column for each member")
    if not ((q > 0) & (q < 1)).all():
        raise InputError(
            f"the values of members range from {q.min():g} to {q.max():g}: "
            "a pool needs probabilities above 0 and below 1"
        )
    return q
