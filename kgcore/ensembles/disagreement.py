"""How far the members of an ensemble are apart: the part of its uncertainty that another model might take away."""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from kgcore.arrays import Floats, Labels, Probabilities, Weights, as_floats, same_length
from kgcore.errors import InputError
from kgcore.metrics.proper import brier
from kgcore.metrics.rows import judged_rows


def disagreement(members: Floats, shares: Floats) -> Floats:
    """Mutual information (n,) between a triple's label and the choice of a member, in nats, 0 to log 2:

        I = H(sum_j w_j q_j) - sum_j w_j H(q_j),  H(q) = - q log q - (1 - q) log(1 - q)

    of members (n, m), probabilities in [0, 1], chosen by shares (m,) that sum to 1. The first term is all of the
    mixture's uncertainty, the second what its members say that remains. It is 0 where those that count agree.

    The Jensen-Shannon divergence of the members (Lin 1991); Houlsby et al. 2011 (BALD); for ensembles Lakshminarayanan
    et al. 2017. Raises InputError for values out of range.
    """
    q = np.asarray(members, dtype=np.float64)
    if q.ndim != 2 or q.shape[1] != len(shares):
        raise InputError(f"members have shape {q.shape}: (n, {len(shares)}) is needed, a column for each share")
    if len(q) and not (q.min() >= 0 and q.max() <= 1):
        raise InputError(f"probabilities lie in [0, 1]: found {q.min():g} to {q.max():g}")
    w = as_floats("shares", shares)
    if (w < 0).any() or abs(w.sum() - 1) > 1e-9:
        raise InputError(f"shares are {w.tolist()}: they must sum to 1, and none be below 0")
    mixture = (q @ w).clip(0, 1)
    apart: Floats = _entropy(mixture) - _entropy(q) @ w
    return apart.clip(0, np.log(2))  # rounding


def _entropy(q: Floats) -> Floats:
    h: Floats = entr(q) + entr(1 - q)
    return h


@dataclass(frozen=True)
class Disputed:
    """What disagreement says about error.

    disagreement    its weighted mean, in nats
    brier_agreed    Brier score of the half, by weight, that the members agree on most
    brier_disputed  Brier score of the other half
    """

    disagreement: float
    brier_agreed: float
    brier_disputed: float


def disputed(apart: Floats, probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Disputed:
    """Compare the error on the half of the rows with the least disagreement (n,) and on the half with the most.

    Rows of the same disagreement on which the two halves meet belong to both, in the same proportion. Raises InputError
    for values out of range.
    """
    q, y, w = judged_rows(probabilities, labels, weights)
    same_length(disagreement=apart, probabilities=q)
    _, place = np.unique(apart, return_inverse=True)
    total = np.bincount(place, weights=w)
    inside = ((w.sum() / 2 - (np.cumsum(total) - total)) / total).clip(0, 1)[place]  # share in the first half
    halves = ((w * share, share > 0) for share in (inside, 1 - inside))
    scores = (brier(q[rows], y[rows], part[rows]) for part, rows in halves)
    return Disputed(float(np.average(apart, weights=w)), *scores)
