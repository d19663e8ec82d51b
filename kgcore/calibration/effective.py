"""Effective counts: the number of observations that weighted rows represent."""

import numpy as np

from kgcore.arrays import Weights
from kgcore.calibration.sample import CalibrationSample


def effective_weights(sample: CalibrationSample) -> Weights:
    """Return the weights (n,), scaled so that the weights of each label sum to its effective count.

    The effective count of a label is (sum w)^2 / sum w^2 over its rows (Kish 1965). If all rows of a label have the
    same weight, as in ground-truth and in synthetic samples, each row counts as 1, that is, as one observation. A
    calibrator with a prior needs such counts, because a prior also counts observations. The scaled weights do not
    depend on the base rate. So a calibrator that is fitted with them moves its probabilities to the base rate of the
    sample with `shift`.
    """
    w, positive = sample.weights, sample.labels == 1
    ratio = [w[rows].sum() / (w[rows] ** 2).sum() for rows in (~positive, positive)]
    weights: Weights = w * np.where(positive, ratio[1], ratio[0])
    return weights
