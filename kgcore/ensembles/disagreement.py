"""Disagreement of the members of an ensemble: the part of the uncertainty that a better model could remove."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import (
    Floats,
    Labels,
    Probabilities,
    Weights,
    as_probabilities,
    as_truth,
    as_weights,
    same_length,
)
from kgcore.metrics.proper import brier


def disagreement(members: Floats, shares: Floats) -> Floats:
    """Return the disagreement of the members about each triple (n,), in nats, in [0, log 2].

    It is the mutual information between the label of the triple and the random choice of a member:

        I = H(sum_j w_j q_j) - sum_j w_j H(q_j),  H(q) = - q log q - (1 - q) log(1 - q).

    members  (n, m) probabilities q in [0, 1]
    shares   (m,) w, at least 0, sum 1: the probability with which each member is chosen

    The first term is the total uncertainty of the mixture. The second is the uncertainty that remains when the chosen
    member is known. I is 0 for a triple if all members with a share above 0 give it the same probability.

    I is the Jensen-Shannon divergence of the members (Lin 1991). Houlsby et al. 2011 (BALD) use it to choose training
    data, and Lakshminarayanan et al. 2017 use it for ensembles.
    """
    mixture = (members @ shares).clip(0, 1)
    apart: Floats = _entropy(mixture) - _entropy(members) @ shares
    return apart.clip(0, np.log(2))  # rounding can leave this range


def _entropy(q: Floats) -> Floats:
    from scipy.special import entr  # the summaries of finished runs, which need this module, do not load SciPy

    return entr(q) + entr(1 - q)


@dataclass(frozen=True)
class Disputed:
    """The error of an ensemble on the rows where its members agree most, and on those where they disagree most.

    disagreement    weighted mean of the disagreement over all rows, in nats
    brier_agreed    Brier score on the half of the rows, by weight, with the least disagreement
    brier_disputed  Brier score on the other half
    """

    disagreement: float
    brier_agreed: float
    brier_disputed: float


def disputed(apart: Floats, probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Disputed:
    """Compute the error of an ensemble on the half of the rows with the least disagreement, and on the other half.

    apart          (n,) disagreement of the members, in nats
    probabilities  (n,) of the ensemble, in [0, 1]
    labels         (n,) 0/1, or confidences
    weights        (n,) positive; None: equal

    If several rows with equal disagreement lie on the boundary, the weight of each is divided between the halves in the
    same proportion. Raises InputError for values out of range.
    """
    n = same_length(disagreement=apart, probabilities=probabilities, labels=labels)
    q, y, w = as_probabilities(probabilities, n), as_truth(labels, n), as_weights(weights, n)
    _, place = np.unique(apart, return_inverse=True)
    total = np.bincount(place, weights=w)
    inside = ((w.sum() / 2 - (np.cumsum(total) - total)) / total).clip(0, 1)[
        place
    ]  # share of the row in the first half
    halves = ((w * share, share > 0) for share in (inside, 1 - inside))
    scores = (brier(q[rows], y[rows], part[rows]) for part, rows in halves)
    return Disputed(float(np.average(apart, weights=w)), *scores)
