"""Calibration by relation: one map for all relations, which each relation adjusts by a regularised slope and offset."""

from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shrinkage import RelationCounts, fit_relations, move_to
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("per_relation")
class PerRelation(SmoothedIsotonic):
    """Calibration by relation: logit q = (1 + a_r) z + b_r for a triple of relation r, with z = logit g(f).

    g is the `smoothed_isotonic` map, fitted on all relations together. a_r >= -1 and b_r minimise, over the rows of
    relation r,

        sum_i v_i [log(1 + exp(u_i)) - y_i u_i] + a_r^2 / (2 t_a) + b_r^2 / (2 t_b),   u_i = (1 + a_r) z_i + b_r + d_r,

    where v are effective weights, y are the labels, and d_r corrects for the number of negatives that were drawn:
    kgcore/calibration/shrinkage.py. The last terms are a prior. It keeps a relation with few triples near g: with about
    sixteen triples and t_b = 1/4, the offset is half as large as it would be without the prior.

    The variances t_a and t_b are estimated from all relations: they are small if relations are alike. This is a
    hierarchical model, fitted by empirical Bayes (Gelman & Hill 2007, chapter 14). b_r adjusts the mean probability of
    a relation, and a_r adjusts its calibration slope (Cox 1958). At the end, one number is added to all b_r, so that
    the weighted mean of q is the base rate. Among triples of one relation, q is non-decreasing in the score. Between
    relations it need not be. If the predicate is unknown, or has no negatives in the sample, q = g(f): positives alone
    are no reason to raise probabilities.

    In `fit` and `predict_proba`, X has the position of the predicate in the graph's vocabulary as its second column.

    tau                      square root of the variance that t_a and t_b have a priori, above 0. It counts as much as
                             two relations
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
        pooled = SmoothedIsotonic().fit_sample(sample)
        relations = {} if sample.predicates is None else self._fit_relations(sample, sample.predicates, pooled)
        return self.set_fitted(scores=pooled.scores_, probabilities=pooled.probabilities_, relations=relations)

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
            offsets = offsets + move_to(counts, theta, float(np.average(labels, weights=weights)))
        pairs = zip(slopes.tolist(), offsets.tolist(), strict=True)
        return dict(zip(present.tolist(), pairs, strict=True))

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
