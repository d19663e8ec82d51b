"""Logistic regression without penalty, fitted exactly: what the sigmoid calibrators have in common."""

import numpy as np
from scipy.special import expit

from kgcore.arrays import Bools, Floats, Labels, Probabilities, Weights
from kgcore.calibration.sample import CalibrationSample
from kgcore.errors import FitError

MAX_STEPS, TOLERANCE = 100, 1e-10


def smoothed_targets(labels: Labels) -> Probabilities:
    """Platt's targets (n,) for labels (n,) 0/1 with N+ positives and N- negatives, unweighted counts:

        t+ = (N+ + 1) / (N+ + 2),  t- = 1 / (N- + 2)

    Platt 1999. They stand for prior observations, which weights do not multiply; with them a sigmoid's
    loss has a minimum even where scores separate the labels.
    """
    positives, negatives = (labels == 1).sum(), (labels == 0).sum()
    targets: Probabilities = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    return targets


def standardise(sample: CalibrationSample) -> tuple[Floats, float, float]:
    """((f - centre) / spread, centre, spread): scores (n,) with weighted mean 0 and standard deviation 1.

    Equal scores have spread 0 and stay at 0.
    """
    f, w = sample.scores, sample.weights
    if f.min() == f.max():
        return np.zeros_like(f), float(f[0]), 0.0
    centre = float(np.average(f, weights=w))
    spread = float(np.sqrt(np.average((f - centre) ** 2, weights=w)))
    return (f - centre) / spread, centre, spread


def fit_logistic(
    name: str, design: Floats, targets: Probabilities, weights: Weights, start: Floats, bounded: Bools
) -> Floats:
    """theta (d,) minimising sum_i w_i [log(1 + exp(z_i)) - t_i z_i], z = theta @ design, theta >= 0 where `bounded`.

    name     of the calibrator, for the error
    design   (d, n), rows of order 1; targets (n,) in [0, 1]; weights (n,), of any scale
    start    (d,) where to begin, within the bounds

    Newton's method with step halving, by active sets (Nocedal & Wright 2006, chapter 16): a step ends at the first
    bound it meets, which then holds until the rest is at its minimum; the loss is convex, so it converges from anywhere
    where there is a minimum. It ends when no free component of the gradient exceeds 1e-10 and no bound is worth
    leaving. For a row of ones in the design that means: the weighted mean of the probabilities is that of the targets
    within 1e-10. Raises FitError after 100 steps.
    """
    weights, theta = weights / weights.sum(), start.astype(np.float64)

    def loss(theta: Floats) -> float:
        z = theta @ design
        return float(weights @ (np.logaddexp(0, z) - targets * z))

    current, free = loss(theta), ~(bounded & (theta <= 0))
    for _ in range(MAX_STEPS):
        q = expit(theta @ design)
        gradient = design @ (weights * (q - targets))
        if np.abs(gradient[free]).max(initial=0.0) <= TOLERANCE:
            leave = int(np.argmin(np.where(free, 0.0, gradient)))
            if free[leave] or gradient[leave] >= -TOLERANCE:
                return theta
            free[leave] = True
        rows = design[free]
        hessian = (rows * (weights * q * (1 - q))) @ rows.T
        hessian += (1e-14 * hessian.diagonal().max() + 1e-30) * np.eye(len(rows))
        direction = np.zeros_like(theta)
        direction[free] = np.linalg.solve(hessian, gradient[free])
        meets = bounded & free & (direction > 0)
        step = min(1.0, (theta[meets] / direction[meets]).min(initial=np.inf))
        if step == 0:
            return theta  # the bound just left is worth it by rounding only
        while (candidate := loss(theta - step * direction)) > current + 1e-12 and step > 1e-8:
            step /= 2  # the slack is the loss's rounding: next to the optimum a full step is right
        theta, current = theta - step * direction, candidate
        met = meets & (theta <= 1e-15)
        theta[met], free[met] = 0.0, False
    raise FitError(
        f"{name} did not converge in {MAX_STEPS} steps: the largest free component of the gradient is still "
        f"{np.abs(gradient[free]).max(initial=0.0):.1e}"
    )
