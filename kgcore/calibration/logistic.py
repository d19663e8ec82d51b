"""Logistic regression without penalty, fitted to convergence: the base of the sigmoid calibrators."""

from collections.abc import Iterator

import numpy as np
from scipy.special import expit

from kgcore.arrays import Bools, Floats, Labels, Probabilities, Weights
from kgcore.calibration.balance import label_sizes
from kgcore.calibration.sample import CalibrationSample
from kgcore.newton import minimise

BLOCK = 2**15  # rows at a time: their temporary arrays stay in the cache of the processor
Rows = tuple[Floats, Probabilities, Weights]  # design (d, n), targets and weights (n,); the weights sum to 1


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


def standardise(sample: CalibrationSample) -> tuple[Floats, float, float]:
    """Scale the scores f to weighted mean 0 and weighted standard deviation 1.

    Return (f - centre) / spread (n,), then centre, the weighted mean of f, and spread, its weighted standard deviation.
    If all scores are equal, spread is 0 and the scaled scores are 0.
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
    """Return sum_i w_i [log(1 + exp(z_i)) - t_i z_i] with z = theta @ design.

    log(1 + exp(z)) is computed as max(z, 0) + log(1 + exp(-|z|)), with an absolute error of about 1e-16.
    """
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
