"""Fits of a few parameters by Newton's method: convex losses, and the logistic losses with and without labels."""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from kgcore.arrays import Bools, Floats, Labels, Probabilities, Weights
from kgcore.base_rate import SMALLEST
from kgcore.calibrate.sample import CalibrationSample, label_sizes
from kgcore.errors import FitError, KgcalWarning

Matrix = npt.NDArray[np.float64]
MAX_STEPS, TOLERANCE = 200, 1e-10
ENOUGH = 0.25  # share of the decrease that the slope promises, which a step must reach (Armijo); a parabola reaches 0.5
RIDGE, ROUNDING, LEAST_GAIN = 1e-13, 1e-12, 1e-15
LONGEST = 1e3  # the first damped step has about this length at most, however flat the loss is
MOST_STALLED = 5

BLOCK = 2**15  # rows at a time: their temporary arrays stay in the cache of the processor
PRIOR = 1e-3  # ridge of the weights of a fit without labels, towards equal shares of 1
Rows = tuple[Floats, Probabilities, Weights]  # design (d, n), targets and weights (n,); the weights sum to 1


def minimise(
    name: str,
    loss: Callable[[Floats], float],
    derivatives: Callable[[Floats], tuple[Floats, Matrix]],
    start: Floats,
    bounded: Bools,
) -> Floats:
    """Return the v (m,) that minimises a convex loss, subject to v_i >= 0 where `bounded`.

    name         name of what is fitted, for the error message
    loss         v -> value, of order 1; smooth where it is finite, and infinite where v is not allowed
    derivatives  v -> gradient (m,) and Hessian (m, m)
    start        (m,) a point within the bounds, with a finite loss
    bounded      (m,) mask of the parameters that must be at least 0

    The method is Newton's, with step halving and active sets (Nocedal & Wright 2006, chapter 16). A step ends at the
    first bound that it meets. The component at that bound then stays at 0 until the free components are at their
    minimum. Where the loss is nearly flat, a Newton step may be so long that no part of it lowers the loss. A growing
    multiple of the identity is then added to the Hessian, until a step does (section 3.4 there). The loss is convex, so
    the method converges from any start if a minimum exists. It ends when no free component of the gradient is above
    1e-10 in size, and no component at its bound would lower the loss by leaving it. It also ends after MOST_STALLED
    steps in a row that lower the loss by no more than 1e-15 and promise no more: large sums are rounded, and so is
    their gradient. Raises FitError if MAX_STEPS steps do not reach either.
    """
    v, damping, stalled = start.astype(np.float64), 0.0, 0
    current, free = loss(v), ~(bounded & (v <= 0))
    for _ in range(MAX_STEPS):
        gradient, curvature = derivatives(v)
        if np.abs(gradient[free]).max(initial=0.0) <= TOLERANCE:
            leave = int(np.argmin(np.where(free, 0.0, gradient)))
            if free[leave] or gradient[leave] >= -TOLERANCE:
                return v
            free[leave] = True
        hessian = curvature[np.ix_(free, free)]
        hessian += (damping + RIDGE * hessian.diagonal().max() + 1e-30) * np.eye(len(hessian))
        direction = np.zeros_like(v)
        direction[free] = np.linalg.solve(hessian, gradient[free])
        meets = bounded & free & (direction > 0)
        step = min(1.0, (v[meets] / direction[meets]).min(initial=np.inf))
        if step == 0:
            return v  # only a rounding error suggests leaving this bound
        slope = float(gradient @ direction)
        while (value := loss(v - step * direction)) > current - ENOUGH * step * slope + ROUNDING and step > 1e-8:
            step /= 2  # ROUNDING allows for rounding in the loss: near the minimum a full step is right
        if value > current + ROUNDING:  # no part of the step lowers the loss
            damping = max(10 * damping, np.abs(gradient[free]).max() / LONGEST)
            continue
        least = LEAST_GAIN * max(1.0, abs(current))
        stalled = stalled + 1 if max(current - value, step * slope) <= least else 0
        if stalled == MOST_STALLED:
            return v
        v, current, damping = v - step * direction, value, 0.0
        met = meets & (v <= 1e-15)
        v[met], free[met] = 0.0, False
    raise FitError(
        f"{name} did not converge in {MAX_STEPS} steps: the largest free component of the gradient is "
        f"{np.abs(gradient[free]).max(initial=0.0):.1e}, and must be at most {TOLERANCE:.0e}"
    )


def smoothed_targets(labels: Labels, counts: Weights | None = None) -> Probabilities:
    """Return Platt's smoothed targets (n,) in (0, 1) for labels (n,) 0/1:

        t+ = (N+ + 1) / (N+ + 2),  t- = 1 / (N- + 2)

    t+ replaces label 1 and t- replaces label 0, for N+ positives and N- negatives (Platt 1999). The counts are
    unweighted, because the smoothing stands for prior observations, which have no weights. With `counts` (n,), they are
    effective numbers: see `label_sizes`. With these targets the loss of a sigmoid has a minimum even if the scores
    separate the labels.
    """
    negatives, positives = label_sizes(labels, counts)
    return np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))


def mean_keeping_targets(labels: Labels, weights: Weights, counts: Weights | None = None) -> Probabilities:
    """Return smoothed targets (n,) in (0, 1) that keep the weighted mean alpha of the labels y (n,) 0/1:

        t = (1 - c) y + c alpha,  c = 2 / (N + 2),  alpha = sum(w y) / sum(w)

    N is the number of positives or of negatives, whichever is smaller, without weights. With as many positives as
    negatives and alpha = 1/2, these are Platt's targets. Platt's t- = 1 / (N- + 2) does not depend on the weights, so
    at a low base rate it is larger than the base rate itself: the mean probability is then too high. Here both targets
    are moved towards the base rate that the weights give. With `counts` (n,), N is an effective number: see
    `label_sizes`.
    """
    alpha = float(np.average(labels, weights=weights))
    c = 2 / (min(label_sizes(labels, counts)) + 2)
    return np.where(labels == 1, (1 - c) + c * alpha, c * alpha)


def fit_logistic(
    name: str, design: Floats, targets: Probabilities, weights: Weights, start: Floats, bounded: Bools
) -> Floats:
    """Return the theta (d,) that minimises sum_i w_i [log(1 + exp(z_i)) - t_i z_i] with z = theta @ design.

    name     name of the fit, for the error message
    design   (d, n) features, each scaled so that its values are not far from 1
    targets  (n,) t, in [0, 1]
    weights  (n,) w, positive, of any scale
    start    (d,) starting point, within the bounds
    bounded  (d,) whether this component of theta must be at least 0

    If the design has a row of ones, the weighted mean of the probabilities equals the weighted mean of the targets
    within 1e-10, but for rounding errors of scores that are very far away. Raises FitError as `minimise` does.
    """
    rows = (design, targets, weights / weights.sum())
    return minimise(name, lambda theta: _loss(theta, rows), lambda theta: _derivatives(theta, rows), start, bounded)


def _blocks(rows: Rows) -> Iterator[Rows]:
    """Yield BLOCK rows at a time."""
    design, targets, weights = rows
    for first in range(0, len(weights), BLOCK):
        part = slice(first, first + BLOCK)
        yield design[:, part], targets[part], weights[part]


def _loss(theta: Floats, rows: Rows) -> float:
    """Return sum_i w_i [log(1 + exp(z_i)) - t_i z_i] with z = theta @ design."""
    total = 0.0
    for design, targets, weights in _blocks(rows):
        z = theta @ design
        each = np.maximum(z, 0) + np.log(1 + np.exp(-np.abs(z))) - targets * z
        total += float((weights * each).sum())
    return total


def _derivatives(theta: Floats, rows: Rows) -> tuple[Floats, Floats]:
    """Return the gradient (d,) and the Hessian (d, d) of `_loss`."""
    gradient, hessian = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
    for design, targets, weights in _blocks(rows):
        q = expit(theta @ design)
        gradient += design @ (weights * (q - targets))
        hessian += np.stack([design @ row for row in design * (weights * q * (1 - q))])
    return gradient, hessian


def stack_weights(
    positives: Floats, candidates: Floats, base_rate: float, counts: Floats | None = None
) -> tuple[Floats, float]:
    """Return weights (m,) of at least 0, and a constant, that minimise the logistic risk of the weighted sum z.

    The candidates have the density g, a share alpha of them is true, and the positives have the density f+ of the true
    ones. Then the risk needs no label (du Plessis et al. 2015, equation 7, with the logistic loss), and is convex:

        R(z) = E_g[log(1 + exp z)] - alpha E_f+[z].

    positives   (n, m) log-odds of the members for the positives
    candidates  (u, m) log-odds of the members for the candidates
    base_rate   alpha, in (0, 1)
    counts      (u,) weights of the candidates, of any scale; None: 1

    Raises FitError if the fit does not converge.
    """
    scale = np.maximum(np.abs(candidates).mean(axis=0), 1e-9)
    mean = positives.mean(axis=0)
    shares = np.full(len(candidates), 1 / len(candidates)) if counts is None else counts / counts.sum()

    design, m = np.column_stack([candidates / scale, np.ones(len(candidates))]), positives.shape[1]
    known, ridge = base_rate * np.append(mean / scale, 1.0), np.append(np.full(m, PRIOR), 0.0)

    def risk(v: Floats) -> float:
        return float(shares @ np.logaddexp(0, design @ v) - known @ v + 0.5 * ridge @ v**2)

    def derivatives(v: Floats) -> tuple[Floats, Matrix]:
        q = expit(design @ v)
        curvature = (design.T * (shares * q * (1 - q))) @ design + np.diag(ridge)
        return design.T @ (shares * q) - known + ridge * v, curvature

    start, bounded = np.append(scale / m, logit(base_rate)), np.arange(m + 1) < m
    fitted = minimise("the weights of the combiners", risk, derivatives, start, bounded)
    return fitted[:-1] / scale, float(fitted[-1])


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


def move_to(log_odds: Floats, weights: Weights, base_rate: float) -> float:
    """Return the number that moves log-odds (n,) so that the weighted mean of their probabilities is the base rate.

    A base rate nearer to 0 or 1 than SMALLEST, to which a mean of probabilities may be rounded, counts as that limit.
    """
    from scipy.optimize import brentq  # loads slowly, and a fitted map does not need it

    shares, mean = weights / weights.sum(), float(np.clip(base_rate, SMALLEST, 1 - SMALLEST))
    most = max(100.0, 2 * float(np.abs(log_odds).max()))
    # a sum, because a dot product of many rows depends on the number of threads
    return float(brentq(lambda by: float((shares * expit(log_odds + by)).sum()) - mean, -most, most, xtol=1e-12))
