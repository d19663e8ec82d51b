"""Calibration by relation: one map for all relations, which each relation adjusts by a regularised slope and offset."""

from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights
from kgcore.calibration.base import Calibrator
from kgcore.calibration.effective import effective_weights
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from kgcore.newton import Matrix, minimise
from kgcore.registries import CALIBRATORS

TAU = 0.5


@CALIBRATORS.register("per_relation")
class PerRelation(Calibrator):
    """Calibration by relation: logit q = (1 + a_r) z + b_r for a triple of relation r, with z = logit g(f).

    g is the `smoothed_isotonic` map, fitted on all relations together. a_r >= -1 and b_r minimise, over the rows of
    relation r,

        sum_i v_i [log(1 + exp(u_i)) - y_i u_i] + (a_r^2 + b_r^2) / (2 tau^2),   u_i = (1 + a_r) z_i + b_r + d,

    where v are the effective weights (see `effective_weights`), y are the labels, and d = logit(share of positives
    under v) - logit(base rate). d corrects for the number of negatives that were drawn, so that number does not matter.
    The last term is a prior with standard deviation tau = 0.5. It keeps a relation with few triples near g: with about
    sixteen triples, the offset is half as large as it would be without the prior.

    This is a hierarchical model with a fixed hyper-parameter tau (Gelman & Hill 2007, chapter 14). b_r adjusts the mean
    probability of a relation, and a_r adjusts its calibration slope (Cox 1958). Among triples of one relation, q is
    non-decreasing in the score. Between relations it need not be. If the predicate is unknown, or has no rows in the
    sample, q = g(f).

    scores, probabilities  (m,) points of the curve g, as in `Isotonic`
    relations              position of the predicate in the graph's vocabulary -> (a_r, b_r)

    Raises FitError if a fit does not converge.
    """

    by_predicate = True

    def __init__(
        self, scores: list[float], probabilities: list[float], relations: dict[str, tuple[float, float]]
    ) -> None:
        self._shared = SmoothedIsotonic(scores, probabilities)
        self.relations = {int(predicate): (float(a), float(b)) for predicate, (a, b) in relations.items()}

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        shared = SmoothedIsotonic.fit(sample)
        z, weights = logit(shared.predict(sample.scores)), effective_weights(sample)
        offset = float(logit(np.average(sample.labels, weights=weights)) - logit(sample.base_rate))
        relations = {}
        if sample.predicates is not None:
            for predicate in np.unique(sample.predicates).tolist():
                own = sample.predicates == predicate
                relations[str(predicate)] = _fit_relation(z[own], offset, sample.labels[own], weights[own])
        return cls(**shared.parameters(), relations=relations)

    def predict(self, scores: Scores) -> Probabilities:
        return self._shared.predict(scores)

    def predict_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        if predicates is None:
            return self.predict(scores)
        size = 1 + max([0, *self.relations, int(predicates.max(initial=0))])
        slopes, offsets = np.ones(size), np.zeros(size)
        for predicate, (a, b) in self.relations.items():
            slopes[predicate], offsets[predicate] = 1 + a, b
        q: Probabilities = expit(slopes[predicates] * logit(self.predict(scores)) + offsets[predicates])
        return q

    def parameters(self) -> dict[str, Any]:
        relations = {str(predicate): list(pair) for predicate, pair in self.relations.items()}
        return self._shared.parameters() | {"relations": relations}


def _fit_relation(z: Floats, offset: float, labels: Labels, weights: Weights) -> tuple[float, float]:
    """Fit (a_r, b_r) of one relation r.

    z, labels, weights  (n,) z = logit g(f), label and effective weight v of each row of the relation
    offset              d
    """
    design, scale = np.stack([z, np.ones_like(z)]), 1 + float(weights.sum())
    prior = np.array([1.0, 0.0])  # the most probable (1 + a, b) under the prior

    def loss(theta: Floats) -> float:
        u, apart = theta @ design + offset, theta - prior
        return float(weights @ (np.logaddexp(0, u) - labels * u) + apart @ apart / (2 * TAU**2)) / scale

    def derivatives(theta: Floats) -> tuple[Floats, Matrix]:
        q = expit(theta @ design + offset)
        gradient = design @ (weights * (q - labels)) + (theta - prior) / TAU**2
        return gradient / scale, ((design * (weights * q * (1 - q))) @ design.T + np.eye(2) / TAU**2) / scale

    name = f"calibration of a relation with {len(z)} triples"
    slope, moved = minimise(name, loss, derivatives, prior, np.array([True, False]))
    return float(slope) - 1, float(moved)
