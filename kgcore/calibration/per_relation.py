"""Calibration by relation: one map for all relations, which each relation adjusts by a regularised slope and offset."""

from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights
from kgcore.calibration.effective import effective_scales
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from kgcore.errors import InputError
from kgcore.newton import Matrix, minimise
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("per_relation")
class PerRelation(SmoothedIsotonic):
    """Calibration by relation: logit q = (1 + a_r) z + b_r for a triple of relation r, with z = logit g(f).

    g is the `smoothed_isotonic` map, fitted on all relations together. a_r >= -1 and b_r minimise, over the rows of
    relation r,

        sum_i v_i [log(1 + exp(u_i)) - y_i u_i] + (a_r^2 + b_r^2) / (2 tau^2),   u_i = (1 + a_r) z_i + b_r + d,

    where v are the effective weights of the relation's rows (see `effective_weights`), y are the labels, and d =
    logit(share of positives under v) - logit(share of positives by weight). d corrects for the number of negatives that
    were drawn, so that number does not matter.
    The last term is a prior with standard deviation tau. It keeps a relation with few triples near g: with about
    sixteen triples and tau = 0.5, the offset is half as large as it would be without the prior.

    This is a hierarchical model with a fixed hyper-parameter tau (Gelman & Hill 2007, chapter 14). b_r adjusts the mean
    probability of a relation, and a_r adjusts its calibration slope (Cox 1958). Among triples of one relation, q is
    non-decreasing in the score. Between relations it need not be. If the predicate is unknown, or has no
    negatives in the sample, q = g(f): positives alone are no reason to raise probabilities.

    In `fit` and `predict_proba`, X has the position of the predicate in the graph's vocabulary as its second column.

    tau                      standard deviation of the prior, above 0
    scores_, probabilities_  (m,) points of the curve g, as in `Isotonic`
    relations_               position of the predicate -> (a_r, b_r)

    Raises FitError if a fit does not converge.
    """

    by_predicate = True
    fitted = ("scores", "probabilities", "relations")
    relations_: dict[int, tuple[float, float]]

    def __init__(self, tau: float = 0.5) -> None:
        self.tau = tau

    def fit_sample(self, sample: CalibrationSample) -> Self:
        if not self.tau > 0:
            raise InputError(f"tau is {self.tau:g}: it must be above 0")
        super().fit_sample(sample)
        z, relations = logit(self.calibrate(sample.scores)), {}
        if sample.predicates is not None:
            every = effective_scales(sample.labels, sample.weights)
            for predicate in np.unique(sample.predicates[sample.labels == 0]).tolist():
                own = sample.predicates == predicate
                labels, weights = sample.labels[own], sample.weights[own]
                negative, positive = effective_scales(labels, weights, every)
                weights = weights * np.where(labels == 1, positive, negative)
                offset = float(np.log(positive / negative))
                relations[predicate] = _fit_relation(z[own], offset, labels, weights, self.tau)
        return self.set_fitted(relations=relations)

    def calibrate_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        if predicates is None:
            return self.calibrate(scores)
        fitted = sorted(self.relations_)
        slopes = np.array([1 + self.relations_[predicate][0] for predicate in fitted] + [1.0])
        offsets = np.array([self.relations_[predicate][1] for predicate in fitted] + [0.0])
        known = np.array([*fitted, np.iinfo(np.int64).max])  # the last place is that of every other predicate
        place = np.searchsorted(known, predicates)
        place[known[place] != predicates] = len(fitted)
        q: Probabilities = expit(slopes[place] * logit(self.calibrate(scores)) + offsets[place])
        return q

    def parameters(self) -> dict[str, Any]:
        relations = {str(predicate): list(pair) for predicate, pair in self.relations_.items()}
        return super().parameters() | {"relations": relations}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        relations = {int(predicate): (float(a), float(b)) for predicate, (a, b) in parameters["relations"].items()}
        return super().from_parameters(parameters | {"relations": relations})


def _fit_relation(z: Floats, offset: float, labels: Labels, weights: Weights, tau: float) -> tuple[float, float]:
    """Fit (a_r, b_r) of one relation r.

    z, labels, weights  (n,) z = logit g(f), label and effective weight v of each row of the relation
    offset              d
    tau                 standard deviation of the prior
    """
    design, scale = np.stack([z, np.ones_like(z)]), 1 + float(weights.sum())
    prior = np.array([1.0, 0.0])  # the most probable (1 + a, b) under the prior

    def loss(theta: Floats) -> float:
        u, apart = theta @ design + offset, theta - prior
        return float(weights @ (np.logaddexp(0, u) - labels * u) + apart @ apart / (2 * tau**2)) / scale

    def derivatives(theta: Floats) -> tuple[Floats, Matrix]:
        q = expit(theta @ design + offset)
        gradient = design @ (weights * (q - labels)) + (theta - prior) / tau**2
        return gradient / scale, ((design * (weights * q * (1 - q))) @ design.T + np.eye(2) / tau**2) / scale

    name = f"calibration of a relation with {len(z)} triples"
    slope, moved = minimise(name, loss, derivatives, prior, np.array([True, False]))
    return float(slope) - 1, float(moved)
