"""Calibration by relation: one map for all relations, which each relation adjusts by a regularised slope and offset.

If relations differ much, one map with slopes and offsets can have the wrong shape. A last curve then corrects it.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Scores, Weights
from kgcore.calibrate.isotonic import Isotonic, SmoothedIsotonic
from kgcore.calibrate.logistic import move_to
from kgcore.calibrate.sample import CalibrationSample, effective_scales
from kgcore.errors import FitError, InputError
from kgcore.registries import CALIBRATORS

PRIOR_RELATIONS = 2.0  # the prior of a variance counts as so many relations
PRIOR_ROWS = 100.0  # so many rows draw a level of the last curve: at 1/2, as a standard deviation of its log-odds of .2
SMOOTH = 0.25  # e: how far from U the two parts of a minimum mix
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
    most       U: a positive counts as min(u, U), smooth by u - e log(1 + exp((u - U) / e)) with e = SMOOTH
    """

    relation: Ints
    z: Floats
    positives: Weights
    rows: Weights
    weights: Weights
    offset: Floats
    most: float = np.inf

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
        theta, posterior = most_probable(counts, theta, variances)
        squares = (theta**2 + posterior).sum(axis=1)
        new = (squares + PRIOR_RELATIONS * tau**2) / (theta.shape[1] + PRIOR_RELATIONS)
        change, variances = np.abs(np.log(new / variances)).max(), new
        if change < CLOSE:
            return theta, variances
    raise FitError(f"the variances between {theta.shape[1]:,} relations did not converge in {ROUNDS} rounds")


def most_probable(counts: RelationCounts, theta: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return theta (2, R) for given variances (2,), and its posterior variances (2, R). It starts from `theta`.

    Newton's method with step halving, for all relations at once. A slope at its bound stays there while the gradient
    points outside.
    """
    precision, offset = 1 / variances[:, None], counts.offset[counts.relation]
    scale = 1 + counts.sums(counts.rows)

    def loss(theta: Floats) -> Floats:
        u = counts.log_odds(theta) + offset
        known = u - SMOOTH * np.logaddexp(0, (u - counts.most) / SMOOTH)
        likelihood = counts.sums(counts.rows * np.logaddexp(0, u) - counts.positives * known)
        total: Floats = (likelihood + (precision * theta**2).sum(axis=0) / 2) / scale
        return total

    current = loss(theta)
    for _ in range(NEWTON_STEPS):
        u = counts.log_odds(theta) + offset
        q, above = expit(u), expit((u - counts.most) / SMOOTH)
        residual = counts.rows * q - counts.positives * (1 - above)
        curvature = counts.rows * q * (1 - q) + counts.positives * above * (1 - above) / SMOOTH
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


def worth_its_levels(curve: SmoothedIsotonic, log_odds: Floats, sample: CalibrationSample) -> SmoothedIsotonic | None:
    """Return the curve h of log-odds u (n,) of the rows of a sample, with the base rate; None if it gains too little.

    It is moved so that the weighted mean of h(u) is the base rate of the sample. It is worth its levels if the log
    likelihood of the labels, with effective weights, rises by more than their number (Akaike 1974). If u is right, that
    happens in 0 to 7 % of simulated samples, and then the prior rows keep h near u.
    """
    weights, move, corrected = sample.effective_weights, to_effective(sample), logit(curve.calibrate(log_odds))
    before, after = (
        (weights * np.logaddexp(0, (1 - 2 * sample.labels) * (u + move))).sum() for u in (log_odds, corrected)
    )
    if before - after <= len(np.unique(curve.probabilities_)):
        return None
    moved = logit(curve.probabilities_) + move_to(corrected, sample.weights, sample.base_rate)
    return curve.set_fitted(scores=curve.scores_, probabilities=expit(moved))


def to_effective(sample: CalibrationSample) -> float:
    """Return what moves log-odds from the base rate of a sample to that of its effective weights."""
    return float(logit(np.average(sample.labels, weights=sample.effective_weights)) - logit(sample.base_rate))


@CALIBRATORS.register("per_relation")
class PerRelation(Isotonic):
    """Calibration by relation: logit q = (1 + a_r) z + b_r for a triple of relation r, with z = logit g(f).

    g is the `smoothed_isotonic` map, fitted on all relations together. a_r >= -1 and b_r minimise, over the rows of
    relation r,

        sum_i v_i [log(1 + exp(u_i)) - y_i u_i] + a_r^2 / (2 t_a) + b_r^2 / (2 t_b),   u_i = (1 + a_r) z_i + b_r + d_r,

    where v are effective weights, y are the labels, and d_r corrects for the number of negatives that were drawn: see
    `RelationCounts.of`. The last terms are a prior. It keeps a relation with few triples near g: with about
    sixteen triples and t_b = 1/4, the offset is half as large as it would be without the prior.

    The variances t_a and t_b are estimated from all relations: they are small if relations are alike. This is a
    hierarchical model, fitted by empirical Bayes (Gelman & Hill 2007, chapter 14). b_r adjusts the mean probability of
    a relation, and a_r adjusts its calibration slope (Cox 1958). At the end, one number is added to all b_r, so that
    the weighted mean of q is the base rate. Among triples of one relation, q is non-decreasing in the score. Between
    relations it need not be. If the predicate is unknown, or has no negatives in the sample, q = g(f): positives alone
    are no reason to raise probabilities.

    g has the shape of all relations together. If they differ much, no slope and offset make it the shape of each, and
    q can be wrong even in the sample. Then q = h(u_i), where h is isotonic regression of the labels on u without d_r,
    with PRIOR_ROWS prior rows in each block that draw it to q = expit(u). `worth_its_levels` says when.

    In `fit` and `predict_proba`, X has the position of the predicate in the graph's vocabulary as its second column.

    tau                      square root of the variance that t_a and t_b have a priori, above 0. It counts as much as
                             two relations
    scores_, probabilities_  (m,) points of the curve g, as in `Isotonic`
    relations_               position of the predicate -> (a_r, b_r)
    last_                    the curve h, or None if q is expit(u)

    Raises FitError if a fit does not converge.
    """

    by_predicate = True
    fitted = ("scores", "probabilities", "relations", "last")
    relations_: dict[int, tuple[float, float]]
    last_: SmoothedIsotonic | None = None

    def __init__(self, tau: float = 0.5) -> None:
        self.tau = tau

    def fit_sample(self, sample: CalibrationSample) -> Self:
        if not self.tau > 0:
            raise InputError(f"tau is {self.tau:g}: it must be above 0")
        pooled = SmoothedIsotonic().fit_sample(sample)
        self.set_fitted(scores=pooled.scores_, probabilities=pooled.probabilities_, relations={}, last=None)
        if sample.predicates is None:
            return self
        self.relations_ = self._fit_relations(sample, sample.predicates, pooled)
        log_odds, known = self._log_odds(sample.scores, sample.predicates)
        if (sample.labels[known] == 1).any():
            u, rows = log_odds[known], sample.part(known)
            by_log_odds, expected = replace(rows, scores=u, predicates=None), expit(u + to_effective(rows))
            self.last_ = worth_its_levels(SmoothedIsotonic().fit_sample(by_log_odds, expected, PRIOR_ROWS), u, rows)
        return self

    def _fit_relations(
        self, sample: CalibrationSample, predicates: Ints, pooled: SmoothedIsotonic
    ) -> dict[int, tuple[float, float]]:
        """Return the slope and the offset of each predicate with negatives. `pooled` is the map g."""
        usable = np.isin(predicates, predicates[sample.labels == 0])
        present, relation = np.unique(predicates[usable], return_inverse=True)
        labels, weights = sample.labels[usable], sample.weights[usable]
        shares = None if sample.concentrations is None else sample.concentrations[usable]
        counts = RelationCounts.of(relation, logit(pooled.calibrate(sample.scores[usable])), labels, weights, shares)
        theta, _ = fit_relations(counts, self.tau)
        slopes, offsets = theta
        if labels.any():
            rate = float(np.average(labels, weights=weights))
            offsets = offsets + move_to(counts.log_odds(theta), counts.weights, rate)
        pairs = zip(slopes.tolist(), offsets.tolist(), strict=True)
        return dict(zip(present.tolist(), pairs, strict=True))

    def calibrate_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        if predicates is None:
            return self.calibrate(scores)
        log_odds, known = self._log_odds(scores, predicates)
        q: Probabilities = expit(log_odds)
        if self.last_ is not None:
            q[known] = self.last_.calibrate(log_odds[known])
        return q

    def _log_odds(self, scores: Scores, predicates: Ints) -> tuple[Floats, Bools]:
        """Return (1 + a_r) z + b_r, or z for a predicate without them, and which predicates have them: (n,) each."""
        fitted = sorted(self.relations_)
        slopes = np.array([1 + self.relations_[predicate][0] for predicate in fitted] + [1.0])
        offsets = np.array([self.relations_[predicate][1] for predicate in fitted] + [0.0])
        positions = np.array([*fitted, np.iinfo(np.int64).max])  # the last place is that of every other predicate
        place = np.searchsorted(positions, predicates)
        known = positions[place] == predicates
        place[~known] = len(fitted)
        log_odds: Floats = slopes[place] * logit(self.calibrate(scores)) + offsets[place]
        return log_odds, known

    def parameters(self) -> dict[str, Any]:
        relations = {str(predicate): list(pair) for predicate, pair in self.relations_.items()}
        last = {} if self.last_ is None else self.last_.parameters()
        return super().parameters() | {"relations": relations, "last": last}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        relations = {int(predicate): (float(a), float(b)) for predicate, (a, b) in parameters["relations"].items()}
        if any(a < -1 for a, _ in relations.values()):
            raise InputError("relations have a slope a below -1: probabilities must not fall as scores rise")
        last = SmoothedIsotonic.stored(parameters["last"]) if parameters["last"] else None
        return super().from_parameters(parameters | {"relations": relations, "last": last})
