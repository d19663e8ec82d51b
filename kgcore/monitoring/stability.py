"""The population stability index: it measures how much the distribution of scores has changed."""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from kgcore.arrays import Scores, Weights, as_floats, as_weights
from kgcore.errors import InputError

BINS = 10


@dataclass(frozen=True)
class Stability:
    """The population stability index and its p-value.

    index  at least 0; 0: both samples have the same shares in every bin
    p      probability of an index of at least this size if the distribution has not changed, in [0, 1]
    """

    index: float
    p: float


def stability(reference: Scores, scores: Scores, weights: Weights | None = None) -> Stability:
    """Compute the population stability index of scores, compared with reference scores:

        sum_b (a_b - e_b) ln(a_b / e_b)

    over BINS bins that hold equal shares of the reference scores. e_b is the share of the reference scores in bin b,
    and a_b is the share of the new scores in it. 1/2 is added to each count first, so that no share is 0.

    reference  (m,) reference scores, finite
    scores     (n,) new scores, finite
    weights    (m,) weights of the reference scores, positive; None: equal

    Without drift the index is about (1 / n + 1 / m) times a chi-square variable with BINS - 1 degrees of freedom
    (Yurdakul 2018), which gives p. In this formula, m is the effective count (sum w)^2 / sum w^2 of the reference.
    Raises InputError for arrays that are empty or not finite, and for weights <= 0.
    """
    new, old = as_floats("scores", scores, len(scores)), as_floats("reference", reference, len(reference))
    if not len(new) or not len(old):
        raise InputError(
            f"there are {len(old):,} reference scores and {len(new):,} new scores: a stability index needs both"
        )
    w = as_weights(weights, len(old))
    count = float(w.sum() ** 2 / (w**2).sum())
    order = np.argsort(old, kind="stable")
    mass = np.cumsum(w[order]) / w.sum()
    edges = np.unique(old[order][np.searchsorted(mass, np.arange(1, BINS) / BINS)])
    cells = len(edges) + 1
    expected = np.bincount(np.searchsorted(edges, old), w, cells) / w.sum() * count + 0.5
    actual = np.bincount(np.searchsorted(edges, new), minlength=cells) + 0.5
    e, a = expected / expected.sum(), actual / actual.sum()
    index = float(((a - e) * np.log(a / e)).sum())
    return Stability(index, float(chdtrc(cells - 1, index / (1 / len(new) + 1 / count))) if cells > 1 else 1.0)
