"""Platt scaling: a logistic curve of the score."""

from typing import Self

import numpy as np
from scipy.special import expit

from kgcore.arrays import Probabilities, Scores
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.logistic import fit_line, smoothed_targets
from kgcore.calibrate.sample import CalibrationSample
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
