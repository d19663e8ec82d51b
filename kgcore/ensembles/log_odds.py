"""The log-odds opinion pool: a weighted sum of the members' log-odds."""

from typing import Self

import numpy as np
from scipy.special import logit

from kgcore.arrays import Floats, Labels, Weights
from kgcore.calibration.logistic import fit_logistic, mean_keeping_targets
from kgcore.ensembles.base import Pool, as_fit_data, as_members, weighted_sum
from kgcore.registries import POOLS


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
        q, y, u = as_fit_data(members, labels, weights)
        start, bounded = np.full(q.shape[1], 1 / q.shape[1]), np.ones(q.shape[1], dtype=bool)
        fitted = fit_logistic("the log-odds pool", logit(q).T, mean_keeping_targets(y, u), u, start, bounded)
        return cls(fitted.tolist())

    def log_odds(self, members: Floats) -> Floats:
        return weighted_sum(logit(as_members(members)), self.weights)
