"""The linear opinion pool: a weighted mean of the members' probabilities."""

from typing import Self

import numpy as np
from scipy.special import logit

from kgcore.arrays import Floats, Labels, Weights
from kgcore.calibration.logistic import Matrix, minimise
from kgcore.ensembles.base import Pool, as_fit_data, as_members, weighted_sum
from kgcore.errors import InputError
from kgcore.registries import POOLS


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
        q, y, u = as_fit_data(members, labels, weights)
        p = np.where(y[:, None] == 1, q, 1 - q)

        def loss(w: Floats) -> float:
            with np.errstate(divide="ignore"):
                return float(w.sum() - u @ np.log(p @ w))

        def derivatives(w: Floats) -> tuple[Floats, Matrix]:
            ratio = p / (p @ w)[:, None]
            return 1 - u @ ratio, (ratio * u[:, None]).T @ ratio

        start, bounded = np.full(q.shape[1], 1 / q.shape[1]), np.ones(q.shape[1], dtype=bool)
        fitted = minimise("the linear pool", loss, derivatives, start, bounded)
        return cls((fitted / fitted.sum()).tolist())

    def log_odds(self, members: Floats) -> Floats:
        q = as_members(members)
        pooled: Floats = logit(
            np.clip(weighted_sum(q, self.weights), q.min(axis=1), q.max(axis=1))
        )  # rounding must not move q out of the members' range
        return pooled
