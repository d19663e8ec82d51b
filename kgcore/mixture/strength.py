"""Significance of a base rate where the likelihood is flat."""

import numpy as np
from scipy.special import chdtr, chdtrc, roots_jacobi

from kgcore.arrays import Floats
from kgcore.mixture.bins import Counts
from kgcore.mixture.em import Solution, log_likelihood

_NODES = 64
_MOST_STEPS, _TOLERANCE, _TINY = 2_000, 1e-4, 1e-300


def conditional_p_value(ratio: Floats, strength: Floats, directions: int) -> Floats:
    """Return the p-value (n,) of a likelihood ratio, given how well the data can tell base rates apart.

    ratio       (n,) m = 2 (greatest log-likelihood - log-likelihood at the base rate), at least 0
    strength    (n,) r, at least 0: see `strength_of`
    directions  k, the number of directions in which positives and corruptions could differ, at least 1

    If positives look like corruptions, the base rate multiplies a difference that is mostly noise, and m is far larger
    than a chi-square variable with one degree of freedom. This is the problem of weak instruments. Moreira's
    conditional likelihood ratio test (Econometrica 71, 2003) solves it; by Andrews, Moreira & Stock (Journal of
    Econometrics 139, 2007) its p-value is

        1 - E F_k((r + m) / (1 + r S / m)),    S ~ Beta(1/2, (k - 1) / 2),

    where F_k is the distribution function of chi-square with k degrees of freedom. As r grows, the p-value tends to
    that of F_1. At r = 0, it is that of F_k.
    """
    m = np.maximum(np.asarray(ratio, dtype=np.float64), 1e-12)[:, None]
    r = np.asarray(strength, dtype=np.float64)[:, None]
    if directions == 1:
        one: Floats = chdtrc(1, m[:, 0])
        return one
    nodes, weights = roots_jacobi(_NODES, (directions - 1) / 2 - 1, -0.5)
    s = (1 + nodes) / 2
    below = chdtr(directions, (r + m) / (1 + r * s / m)) @ (weights / weights.sum())
    p: Floats = 1 - below
    return p


def strength_of(counts: Counts, at: Solution, flat: Floats) -> Floats:
    """Return r (S,): how well each problem can tell base rates apart, at the solutions `at` for stated base rates.

    flat  (S,) the log-likelihood if positives are a mixture of the corruptions: see `flat_likelihood`

    r = 2 (log-likelihood at the base rate - flat) for the scores, plus the information of the labels about the base
    rate, in the same unit. With N candidates, P positives, n corruptions, L labels and base rate alpha, that is

        L / (alpha (1 - alpha)) (1/N + alpha^2/P + (1 - alpha)^2/n)^2 / (1/(N P) + 1/(N n) + 1/(P n)).

    The second factor changes the unit from the base rate to the angle by which it turns the estimated difference of
    positives and corruptions, in the metric of its covariance.
    """
    alone = Counts(counts.candidates, counts.components, np.zeros_like(counts.true), np.zeros_like(counts.false))
    r = np.maximum(2 * (log_likelihood(alone, at.weights, at.densities) - flat), 0.0)
    if not counts.labels:
        return r
    alpha = at.weights[:, 0]
    labels = (counts.true + counts.false).sum(axis=-1)
    candidates, positives = (1 / own for own in (counts.candidates.sum(axis=-1), counts.components[:, 0].sum(axis=-1)))
    corruptions = 1 / counts.components[:, 1:].sum(axis=(1, 2))
    variance = candidates + alpha**2 * positives + (1 - alpha) ** 2 * corruptions
    area = candidates * positives + candidates * corruptions + positives * corruptions
    known = labels / np.maximum(alpha * (1 - alpha), 1e-9)
    strength: Floats = r + known * variance**2 / area
    return strength


def flat_likelihood(counts: Counts) -> Floats:
    """Return the greatest log-likelihood (S,) if positives and candidates are both mixtures of the corruptions.

    It has the terms of candidates and components in `solve`, without those of labels.
    """
    mixed = np.stack([counts.components[:, 0], counts.candidates], axis=1)
    rows = counts.components[:, 1:]
    size, num, _ = rows.shape
    w, p, value = np.full((size, 2, num), 1 / num), rows / rows.sum(axis=-1, keepdims=True), np.full(size, -np.inf)
    for _ in range(_MOST_STEPS):
        share = np.maximum(w @ p, _TINY)
        new = (mixed * np.log(share)).sum(axis=(1, 2)) + (rows * np.log(np.maximum(p, _TINY))).sum(axis=(1, 2))
        if (new - value < _TOLERANCE).all():
            break
        value = new
        ratio = mixed / share
        expected_w = w * (ratio @ p.transpose(0, 2, 1))
        p = rows + p * (w.transpose(0, 2, 1) @ ratio)
        w, p = expected_w / expected_w.sum(axis=-1, keepdims=True), p / p.sum(axis=-1, keepdims=True)
    result: Floats = new
    return result
