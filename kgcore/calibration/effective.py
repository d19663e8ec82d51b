"""Effective counts: the number of observations that weighted rows represent."""

import numpy as np

from kgcore.arrays import Weights
from kgcore.calibration.sample import CalibrationSample


def effective_weights(sample: CalibrationSample) -> Weights:
    """Weights (n,), scaled so that those of each label sum to the label's effective count (sum w)^2 / sum w^2.

    Kish 1965. Where all rows of a label have the same weight, as in ground-truth and in synthetic samples, each row
    counts as 1: one observation. A prior is weighed against these counts. They do not depend on the base rate; a
    calibrator that fits on them moves its probabilities to the sample's base rate with `shift`.
    """
    w, positive = sample.weights, sample.labels == 1
    ratio = [w[rows].sum() / (w[rows] ** 2).sum() for rows in (~positive, positive)]
    weights: Weights = w * np.where(positive, ratio[1], ratio[0])
    return weights
