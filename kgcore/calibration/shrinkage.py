"""Empirical Bayes: a slope and an offset for each relation, and how far relations are apart."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from kgcore.arrays import Floats, Ints, Labels, Weights
from kgcore.calibration.effective import effective_scales
from kgcore.errors import FitError

PRIOR_RELATIONS = 2.0  # the prior of a variance counts as so many relations
NEWTON_STEPS, TOLERANCE = 200, 1e-10
ROUNDS, CLOSE = 500, 1e-3  # of the variances; they change by less than the share CLOSE in the last round


@dataclass(frozen=True)
class RelationCounts:
    """The rows of a sample, counted by relation and log-odds z. There are k pairs of them, and R relations.

    relation   (k,) 0 to R - 1
    z          (k,) log-odds of the map of all relations
    positives  (k,) effective weight of the positives
    rows       (k,) effective weight of all rows
    weights    (k,) weight of all rows in the sample
    offset     (R,) d_r, which is added to the log-odds of the relation's rows; see `of`
    """

    relation: Ints
    z: Floats
    positives: Weights
    rows: Weights
    weights: Weights
    offset: Floats

    @classmethod
    def of(cls, relation: Ints, z: Floats, labels: Labels, weights: Weights, shares: Weights | None = None) -> Self:
        """Count n rows: relation, log-odds, labels 0/1, weights, and perhaps concentrations (n,).

        The effective weights of a relation and a label are its weights times e = sum w / sum w^2, so they sum to their
        effective count, (sum w)^2 / sum w^2 (Kish 1965). d_r = log(e+ / e-) corrects for the number of negatives that
        were drawn. A label without rows in the relation has the e of all relations. Concentrations
        count as in `effective_weights`.
        """
        size, group = int(relation.max()) + 1, 2 * relation + labels.astype(np.int64)
        squared = weights**2 if shares is None else shares * weights**2
        sums, squares = (np.bincount(group, own, 2 * size) for own in (weights, squared))
        every = effective_scales(labels, weights, (1.0, 1.0), shares)
        scales = np.where(squares > 0, sums / np.where(squares > 0, squares, 1.0), np.tile(every, size))
        effective, offset = weights * scales[group], np.log(scales[1::2] / scales[::2])
        order = np.lexsort((z, relation))
        relation, z = relation[order], z[order]
        first = np.flatnonzero(np.r_[True, (np.diff(relation) != 0) | (np.diff(z) != 0)])
        positives, rows, own = (
            np.add.reduceat(values[order], first) for values in (effective * labels, effective, weights)
        )
        return cls(relation[first], z[first], positives, rows, own, offset)

    def sums(self, values: Floats) -> Floats:
        """Sum values (k,) by relation: (R,)."""
        return np.bincount(self.relation, values, len(self.offset)).astype(np.float64)

    def log_odds(self, theta: Floats) -> Floats:
        """Return (1 + a_r) z + b_r (k,) for theta (2, R), the rows a and b."""
        u: Floats = (1 + theta[0][self.relation]) * self.z + theta[1][self.relation]
        return u


def fit_relations(counts: RelationCounts, tau: float) -> tuple[Floats, Floats]:
    """Fit the slopes and the offsets of all relations. Return theta (2, R), the rows a and b, and variances (2,).

    a_r and b_r have normal priors with mean 0 and the variances t_a and t_b. For given variances, theta is the maximum
    a posteriori within a_r >= -1. The variances have scaled inverse chi-squared priors with the scale tau^2, which
    count as PRIOR_RELATIONS relations. They maximise the marginal posterior, by the EM algorithm with Laplace's
    approximation:

        t = (sum_r (theta_r^2 + var_r) + PRIOR_RELATIONS tau^2) / (R + PRIOR_RELATIONS)

    where var_r is the posterior variance of theta_r (Gelman et al., Bayesian Data Analysis, 3rd ed., section 13.6).

    Raises FitError if a fit does not converge.
    """
    variances = np.full(2, tau**2)
    theta = np.zeros((2, len(counts.offset)))
    for _ in range(ROUNDS):
        theta, posterior = _most_probable(counts, theta, variances)
        squares = (theta**2 + posterior).sum(axis=1)
        new = (squares + PRIOR_RELATIONS * tau**2) / (theta.shape[1] + PRIOR_RELATIONS)
        change, variances = np.abs(np.log(new / variances)).max(), new
        if change < CLOSE:
            return theta, variances
    raise FitError(f"the variances between {theta.shape[1]:,} relations did not converge in {ROUNDS} rounds")


def move_to(counts: RelationCounts, theta: Floats, base_rate: float) -> float:
    """Return the number that all offsets b must be moved by, so that the weighted mean probability is the base rate."""
    u, weights = counts.log_odds(theta), counts.weights / counts.weights.sum()
    return float(brentq(lambda by: float(weights @ expit(u + by)) - base_rate, -100, 100, xtol=1e-12))


def _most_probable(counts: RelationCounts, theta: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return theta (2, R) for given variances (2,), and its posterior variances (2, R). It starts from `theta`.

    Newton's method with step halving, for all relations at once. A slope at its bound stays there while the gradient
    points outside.
    """
    precision, offset = 1 / variances[:, None], counts.offset[counts.relation]
    scale = 1 + counts.sums(counts.rows)

    def loss(theta: Floats) -> Floats:
        u = counts.log_odds(theta) + offset
        likelihood = counts.sums(counts.rows * np.logaddexp(0, u) - counts.positives * u)
        total: Floats = (likelihood + (precision * theta**2).sum(axis=0) / 2) / scale
        return total

    current = loss(theta)
    for _ in range(NEWTON_STEPS):
        q = expit(counts.log_odds(theta) + offset)
        residual, curvature = counts.rows * q - counts.positives, counts.rows * q * (1 - q)
        gradient = np.stack([counts.sums(residual * counts.z), counts.sums(residual)]) + precision * theta
        aa = counts.sums(curvature * counts.z**2) + precision[0]
        ab, bb = counts.sums(curvature * counts.z), counts.sums(curvature) + precision[1]
        bound = (theta[0] <= -1) & (gradient[0] > 0)
        gradient[0] = np.where(bound, 0.0, gradient[0])
        determinant = aa * bb - ab**2
        if (np.abs(gradient) / scale).max() <= TOLERANCE:
            return theta, np.stack([bb, aa]) / determinant
        cross = np.where(bound, 0.0, ab)
        both = aa * bb - cross**2
        step = np.stack([bb * gradient[0] - cross * gradient[1], aa * gradient[1] - cross * gradient[0]]) / both
        size = np.ones(theta.shape[1])
        while True:
            new = theta - size * step
            new[0] = np.maximum(new[0], -1.0)
            value = loss(new)
            worse = (value > current + 1e-13) & (size > 1e-12)
            if not worse.any():
                break
            size[worse] /= 2
        theta, current = new, value
    raise FitError(
        f"the maps of {theta.shape[1]:,} relations did not converge in {NEWTON_STEPS} steps: the largest gradient is "
        f"{(np.abs(gradient) / scale).max():.1e}"
    )
