"""Opinion pools, which combine the probabilities of several calibrated members: the abstract class, and two pools."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import logit

from kgcore.arrays import Floats, Labels, Weights, as_floats
from kgcore.calibrate.logistic import Matrix, fit_logistic, mean_keeping_targets, minimise
from kgcore.errors import InputError
from kgcore.registries import POOLS


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

        Raises FitError if the fit does not converge.
        """

    @abstractmethod
    def log_odds(self, members: Floats) -> Floats:
        """Pool probabilities of the members (n, m), above 0 and below 1, into log-odds (n,).

        The log-odds are non-decreasing in each member.
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


@POOLS.register("linear")
class Linear(Pool):
    """The linear pool: q = sum_j w_j q_j. The weights w, at least 0 and with sum 1, minimise the weighted log loss

        - sum_i u_i log sum_j w_j p_ij,  p_ij = q_ij where y_i = 1, 1 - q_ij where y_i = 0

    for sample weights u (n,) that sum to 1. Stone 1961; Genest & Zidek 1986; weights by maximum likelihood as in
    Ranjan & Gneiting 2010. The fit minimises the loss plus sum_j w_j over all w >= 0. This has the same solution,
    because the weights sum to 1 at its minimum (Kim et al. 2020).

    weights  (m,) at least 0, sum 1
    """

    def __init__(self, weights: list[float]) -> None:
        super().__init__(weights)
        if abs(self.weights.sum() - 1) > 1e-9:
            raise InputError(f"weights of the linear pool are {weights}: they must sum to 1")

    @classmethod
    def fit(cls, members: Floats, labels: Labels, weights: Weights) -> Self:
        p, u = np.where(labels[:, None] == 1, members, 1 - members), weights / weights.sum()

        def loss(w: Floats) -> float:
            with np.errstate(divide="ignore"):
                return float(w.sum() - u @ np.log(p @ w))

        def derivatives(w: Floats) -> tuple[Floats, Matrix]:
            ratio = p / (p @ w)[:, None]
            return 1 - u @ ratio, (ratio * u[:, None]).T @ ratio

        m = members.shape[1]
        start, bounded = np.full(m, 1 / m), np.ones(m, dtype=bool)
        fitted = minimise("the linear pool", loss, derivatives, start, bounded)
        return cls((fitted / fitted.sum()).tolist())

    def log_odds(self, members: Floats) -> Floats:
        # rounding must not move a mean out of the members' range
        means = np.clip(weighted_sum(members, self.weights), members.min(axis=1), members.max(axis=1))
        return logit(means)


@POOLS.register("log_odds")
class LogOdds(Pool):
    """The log-odds pool: logit q = sum_j w_j logit q_j.

    The weights w >= 0 minimise the weighted log loss against targets near 0 and 1 (see `mean_keeping_targets`), which
    keep the weights finite if the members separate the labels. If the weights
    sum to more than 1, the pooled probability is closer to 0 or 1 than the weighted mean of the members' log-odds would
    give. This is right if the members bring independent evidence.

    This is the logarithmic pool (Genest & Zidek 1986) of a binary event, with free weights as in Satopaa et al. 2014.

    weights  (m,) at least 0
    """

    @classmethod
    def fit(cls, members: Floats, labels: Labels, weights: Weights) -> Self:
        m, u = members.shape[1], weights / weights.sum()
        start, bounded = np.full(m, 1 / m), np.ones(m, dtype=bool)
        fitted = fit_logistic("the log-odds pool", logit(members).T, mean_keeping_targets(labels, u), u, start, bounded)
        return cls(fitted.tolist())

    def log_odds(self, members: Floats) -> Floats:
        return weighted_sum(logit(members), self.weights)
