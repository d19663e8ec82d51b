"""Platt scaling: a logistic curve through the scores, fitted exactly."""

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Floats, Probabilities, Scores, Weights
from kgcore.calibration import CALIBRATORS
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.errors import FitError, KgcalWarning

MAX_STEPS, TOLERANCE = 100, 1e-10


@CALIBRATORS.register("platt")
class Platt(Calibrator):
    """q = sigmoid(a f + b), a >= 0, minimising the weighted log loss against Platt's smoothed targets

        t+ = (N+ + 1) / (N+ + 2),  t- = 1 / (N- + 2)

    N+ and N- being the unweighted counts: the smoothing stands for prior observations, which weights do not multiply.

    Platt 1999, "Probabilistic Outputs for Support Vector Machines"; paper, section 4, equations 3 and 4. The fit is
    Newton's method in float64 on standardised scores; it ends when the gradient vanishes, which is where the weighted
    mean of q equals the weighted mean of the targets. Scores that rank positives below negatives give a = 0, the
    constant base rate, and a warning.
    """

    def __init__(self, a: float, b: float) -> None:
        self.a, self.b = a, b

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        f, y, w = sample.scores, sample.labels, sample.weights
        n_positive, n_negative = (y == 1).sum(), (y == 0).sum()
        targets = np.where(y == 1, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
        centre = np.average(f, weights=w)
        spread = np.sqrt(np.average((f - centre) ** 2, weights=w))
        base = float(logit(np.average(targets, weights=w)))
        if spread == 0:
            return cls(0.0, base)
        slope, intercept = fit_sigmoid((f - centre) / spread, targets, w)
        if slope <= 0:
            message = "the scores rank positives below negatives: Platt scaling is the constant base rate"
            warnings.warn(message, KgcalWarning, stacklevel=2)
            return cls(0.0, base)
        return cls(float(slope / spread), float(intercept - slope * centre / spread))

    def predict(self, scores: Scores) -> Probabilities:
        q: Probabilities = expit(self.a * np.asarray(scores, dtype=np.float64) + self.b)
        return q

    def parameters(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b}


def fit_sigmoid(x: Floats, targets: Floats, weights: Weights) -> tuple[float, float]:
    """(a, b) minimising sum_i w_i [log(1 + exp(z_i)) - t_i z_i], z = a x + b, for x of order 1 and t in (0, 1).

    Newton's method with step halving; the loss is convex, so it converges from anywhere. Raises FitError when the
    weighted mean of the probabilities does not reach that of the targets within 1e-10.
    """
    weights = weights / weights.sum()
    design = np.stack([x, np.ones_like(x)])
    theta = np.array([0.0, logit(weights @ targets)])

    def loss(theta: Floats) -> float:
        z = theta @ design
        return float(weights @ (np.logaddexp(0, z) - targets * z))

    current = loss(theta)
    for _ in range(MAX_STEPS):
        q = expit(theta @ design)
        gradient = design @ (weights * (q - targets))
        if np.abs(gradient).max() <= TOLERANCE:
            return float(theta[0]), float(theta[1])
        hessian = (design * (weights * q * (1 - q))) @ design.T + 1e-14 * np.eye(2)
        direction = np.linalg.solve(hessian, gradient)
        step = 1.0
        while (candidate := loss(theta - step * direction)) > current + 1e-12 and step > 1e-8:
            step /= 2  # the slack is the loss's rounding: next to the optimum a full step is right
        theta, current = theta - step * direction, candidate
    raise FitError(
        f"Platt scaling did not converge in {MAX_STEPS} steps: the largest component of the gradient is still "
        f"{np.abs(gradient).max():.1e}"
    )
