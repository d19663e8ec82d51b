"""Disagreement of the members of an ensemble: the part of its uncertainty that a better model could remove."""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from kgcore.arrays import (
    Floats,
    Labels,
    Probabilities,
    Weights,
    as_floats,
    as_labels,
    as_probabilities,
    as_weights,
    same_length,
)
from kgcore.errors import InputError
from kgcore.metrics.proper import brier


def disagreement(members: Floats, shares: Floats) -> Floats:
    """Mutual information (n,) between the label of a triple and the choice of a member, in nats, in [0, log 2]:

        I = H(sum_j w_j q_j) - sum_j w_j H(q_j),  H(q) = - q log q - (1 - q) log(1 - q).

    members  (n, m) probabilities q in [0, 1]
    shares   (m,) w, at least 0, sum 1: the probability of choosing each member

    The first term is the total uncertainty of the mixture. The second is the uncertainty that remains when the member
    is known. I is 0 where all members with a share above 0 agree.

    I is the Jensen-Shannon divergence of the members (Lin 1991); Houlsby et al. 2011 (BALD); for ensembles
    Lakshminarayanan et al. 2017. Raises InputError for values out of range.
    """
    q = np.asarray(members, dtype=np.float64)
    if q.ndim != 2 or q.shape[1] != len(shares):
        raise InputError(f"members have shape {q.shape}: (n, {len(shares)}) is needed, one column for each share")
    if len(q) and not (q.min() >= 0 and q.max() <= 1):
        raise InputError(f"probabilities lie in [0, 1]: found {q.min():g} to {q.max():g}")
    w = as_floats("shares", shares)
    if (w < 0).any() or abs(w.sum() - 1) > 1e-9:
        raise InputError(f"shares are {w.tolist()}: each must be at least 0, and they must sum to 1")
    mixture = (q @ w).clip(0, 1)
    apart: Floats = _entropy(mixture) - _entropy(q) @ w
    return apart.clip(0, np.log(2))  # against rounding


def _entropy(q: Floats) -> Floats:
    h: Floats = entr(q) + entr(1 - q)
    return h


@dataclass(frozen=True)
class Disputed:
    """Error of an ensemble where its members agree and where they disagree.

    disagreement    weighted mean of the disagreement, in nats
    brier_agreed    Brier score of the half of the rows, by weight, with the least disagreement
    brier_disputed  Brier score of the other half
    """

    disagreement: float
    brier_agreed: float
    brier_disputed: float


def disputed(apart: Floats, probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Disputed:
    """Compare the error on the half of the rows with the least disagreement and on the half with the most.

    apart          (n,) disagreement, in nats
    probabilities  (n,) of the ensemble, in [0, 1]
    labels         (n,) 0/1
    weights        (n,) positive; None: equal

    If rows with equal disagreement lie on the boundary, each belongs to both halves, in the same proportion. Raises
    InputError for values out of range.
    """
    n = same_length(disagreement=apart, probabilities=probabilities, labels=labels)
    q, y, w = as_probabilities(probabilities, n), as_labels(labels, n), as_weights(weights, n)
    _, place = np.unique(apart, return_inverse=True)
    total = np.bincount(place, weights=w)
    inside = ((w.sum() / 2 - (np.cumsum(total) - total)) / total).clip(0, 1)[
        place
    ]  # share of the row in the first half
    halves = ((w * share, share > 0) for share in (inside, 1 - inside))
    scores = (brier(q[rows], y[rows], part[rows]) for part, rows in halves)
    return Disputed(float(np.average(apart, weights=w)), *scores)
