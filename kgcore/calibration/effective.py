"""Effective counts: the number of observations that weighted rows represent."""

import numpy as np

from kgcore.arrays import Labels, Weights
from kgcore.calibration.sample import CalibrationSample


def effective_weights(sample: CalibrationSample) -> Weights:
    """Return the weights (n,), scaled so that the weights of each label sum to its effective count.

    The effective count of a label is (sum w)^2 / sum w^2 over its rows (Kish 1965). If all rows of a label have the
    same weight, each row counts as one observation. So it is in ground-truth samples, and in synthetic samples without
    dropped corruptions. A calibrator with a prior needs such counts, because a prior also counts observations. The
    scaled weights do not depend on the base rate. So a calibrator that is fitted with them moves its probabilities to
    the base rate of the sample with `shift`.

    In a thinned sample, the rows that stand only for themselves give the scale. So each of these counts as about one
    observation, as in the sample of all rows. The other rows count as many, which matters little: a prior row is
    nothing beside them.
    """
    every = effective_scales(sample.labels, sample.weights)
    rows = slice(None) if sample.thinned is None else ~sample.thinned
    negative, positive = effective_scales(sample.labels[rows], sample.weights[rows], every)
    weights: Weights = sample.weights * np.where(sample.labels == 1, positive, negative)
    return weights


def effective_scales(
    labels: Labels, weights: Weights, otherwise: tuple[float, float] = (np.nan, np.nan)
) -> tuple[float, float]:
    """Return sum w / sum w^2 of the negatives and of the positives: their effective weight for each unit of weight.

    labels, weights  (n,) 0/1, and w
    otherwise        the numbers of a label without rows
    """
    ratios = list(otherwise)
    for label in (0, 1):
        w = weights[labels == label]
        if len(w):
            ratios[label] = float(w.sum() / (w**2).sum())
    return ratios[0], ratios[1]
