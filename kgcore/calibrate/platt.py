"""Platt scaling: a logistic curve of the score."""

import warnings
from typing import Self

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Floats, Probabilities, Scores
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.logistic import fit_logistic, smoothed_targets
from kgcore.calibrate.sample import CalibrationSample
from kgcore.errors import KgcalWarning
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("platt")
class Platt(Calibrator):
    """Platt scaling: q = sigmoid(a f + b), a >= 0.

    a and b minimise the weighted log loss against Platt's smoothed targets

        t+ = (N+ + 1) / (N+ + 2),  t- = 1 / (N- + 2)

    where N+ and N- are the unweighted numbers of positives and negatives (see `smoothed_targets`).

    Platt's t- does not depend on the base rate: at a low one, the mean of q is above it. `beta` has other targets.

    Platt 1999, "Probabilistic Outputs for Support Vector Machines"; paper, section 4, equations 3 and 4. The fit uses
    Newton's method in float64 on standardised scores, until the gradient is 0 within 1e-10. Then the weighted mean of q
    equals the weighted mean of the targets. If the scores rank positives below negatives, a = 0, q is the constant base
    rate, and a KgcalWarning is given. Raises FitError if the fit does not converge.
    """

    fitted = ("a", "b")
    a_: float
    b_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        a, b = fit_line("Platt scaling", sample, smoothed_targets(sample.labels, sample.counts))
        return self.set_fitted(a=a, b=b)

    def calibrate(self, scores: Scores) -> Probabilities:
        return expit(self.a_ * np.asarray(scores, dtype=np.float64) + self.b_)


def fit_line(name: str, sample: CalibrationSample, targets: Floats) -> tuple[float, float]:
    """Fit a and b of Platt scaling, a >= 0, to targets (n,). `name` is the name of the calibrator in the warning.

    If the scores rank positives below negatives, a = 0 and a KgcalWarning is given. Raises FitError if the fit does
    not converge.
    """
    f, w = sample.scores, sample.weights
    base = float(logit(np.average(targets, weights=w)))
    if f.min() == f.max():
        return 0.0, base
    centre = float(np.average(f, weights=w))
    spread = float(np.sqrt(np.average((f - centre) ** 2, weights=w)))
    x = (f - centre) / spread
    design, free = np.stack([x, np.ones_like(x)]), np.zeros(2, dtype=bool)
    slope, intercept = fit_logistic(name, design, targets, w, np.array([0.0, base]), free).tolist()
    if slope <= 0:
        message = f"the scores rank positives below negatives: {name} gives the constant base rate"
        warnings.warn(message, KgcalWarning, stacklevel=3)
        return 0.0, base
    return slope / spread, intercept - slope * centre / spread
