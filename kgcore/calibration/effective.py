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

    With concentrations c, sum w^2 is sum c w^2: that of the sample without left-out rows. So a row has the effective
    weight that it has there, and a row that stands for many has theirs together.
    """
    negative, positive = effective_scales(sample.labels, sample.weights, shares=sample.concentrations)
    weights: Weights = sample.weights * np.where(sample.labels == 1, positive, negative)
    return weights


def effective_scales(
    labels: Labels,
    weights: Weights,
    otherwise: tuple[float, float] = (np.nan, np.nan),
    shares: Weights | None = None,
) -> tuple[float, float]:
    """Return sum w / sum w^2 of the negatives and of the positives: their effective weight for each unit of weight.

    labels, weights  (n,) 0/1, and w
    otherwise        the numbers of a label without rows
    shares           (n,) concentrations of the rows; None: 1
    """
    ratios = list(otherwise)
    squares = weights**2 if shares is None else shares * weights**2
    for label in (0, 1):
        rows = labels == label
        if rows.any():
            ratios[label] = float(weights[rows].sum() / squares[rows].sum())
    return ratios[0], ratios[1]
