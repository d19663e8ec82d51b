"""Beta calibration: Platt scaling with separate slopes for small and for large probabilities."""

from typing import Self

import numpy as np
from scipy.special import expit

from kgcore.arrays import Floats, Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.logistic import fit_logistic, mean_keeping_targets
from kgcore.calibration.platt import fit_line
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("beta")
class Beta(Calibrator):
    """Beta calibration: q = sigmoid(a ln p - b ln(1 - p) + c), a >= 0, b >= 0, p = sigmoid(slope f + intercept).

    Kull, Silva Filho & Flach, AISTATS 2017, equation 6. The input of the paper is a probability; here p is the output
    of Platt scaling, so q = p if a = b = 1, c = 0. As a function of logit p, logit q has the slope a (1 - p) + b p.
    So the slope is about a where p is small, and about b where p is large.

    Within these bounds, a, b and c minimise the weighted log loss against targets near 0 and 1, which keep the weighted
    mean of the labels: `mean_keeping_targets`. The weighted mean of q then is the base rate. The paper uses the targets
    0 and 1, but then no best curve exists if the scores separate the labels. If the sample has only two distinct
    scores, a = b = 1 and c = 0. If the scores rank positives below negatives, q is the constant base rate, and a
    KgcalWarning is given. Raises FitError if the fit does not converge.
    """

    fitted = ("a", "b", "c", "slope", "intercept")
    a_: float
    b_: float
    c_: float
    slope_: float
    intercept_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        targets = mean_keeping_targets(sample.labels, sample.weights)
        slope, intercept = fit_line("beta calibration", sample, targets)
        if slope == 0 or len(np.unique(sample.scores)) == 2:
            return self.set_fitted(a=1.0, b=1.0, c=0.0, slope=slope, intercept=intercept)
        design = features(slope * sample.scores + intercept)
        start, bounded = np.array([1.0, 1.0, 0.0]), np.array([True, True, False])
        a, b, c = fit_logistic("beta calibration", design, targets, sample.weights, start, bounded).tolist()
        return self.set_fitted(a=a, b=b, c=c, slope=slope, intercept=intercept)

    def calibrate(self, scores: Scores) -> Probabilities:
        with np.errstate(over="ignore"):
            log_odds = self.slope_ * np.asarray(scores, dtype=np.float64) + self.intercept_
        design = features(log_odds.clip(-1e300, 1e300))  # finite: a parameter of 0 times infinity would be NaN
        q: Probabilities = expit(np.array([self.a_, self.b_, self.c_]) @ design)
        return q


def features(log_odds: Floats) -> Floats:
    """Return the features (3, n) of log-odds (n,): the rows ln p, -ln(1 - p) and 1, with p = sigmoid(log_odds).

    They are computed from the log-odds directly, because p would round to 0 or 1 for extreme log-odds.
    """
    return np.stack([-np.logaddexp(0, -log_odds), np.logaddexp(0, log_odds), np.ones_like(log_odds)])
