"""How many observations weighted rows stand for."""

import numpy as np

from kgcore.arrays import Weights
from kgcore.calibration.sample import CalibrationSample


def effective_weights(sample: CalibrationSample) -> Weights:
    """The weights (n,), scaled for each label so that they sum to its effective count (sum w)^2 / sum w^2 (Kish 1965).

    Where the rows of a label weigh the same, as in ground-truth and in synthetic samples, every row is 1: what was
    observed, and what a prior is to be held against. A base rate moves no such count; it is for `shift` to tell the
    resulting probabilities about the sample's.
    """
    w, positive = sample.weights, sample.labels == 1
    ratio = [w[rows].sum() / (w[rows] ** 2).sum() for rows in (~positive, positive)]
    weights: Weights = w * np.where(positive, ratio[1], ratio[0])
    return weights
