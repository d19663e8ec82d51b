"""What a calibration sample is like, to be looked at before its probabilities are trusted."""

import numpy as np

from kgcore.calibration.sample import CalibrationSample


def score_audit(sample: CalibrationSample) -> dict[str, float]:
    """How a model tells synthetic negatives from positives, and how many equally weighted rows their weights are worth.

    overlap                P(f(t-) > f(t+)) + P(f(t-) = f(t+)) / 2, or 1 - AUROC: 0 where the model ranks every positive
                           above every corruption, 0.5 where it cannot tell them. Far below that of labelled negatives,
                           the corruptions are easier than the mistakes one expects, and probabilities too confident.
    effective_sample_size  (sum w)^2 / sum w^2 (Kish 1965)
    """
    true = sample.labels == 1
    positives, negatives = np.sort(sample.scores[true]), sample.scores[~true]
    below, up_to = (np.searchsorted(positives, negatives, side) for side in ("left", "right"))
    overlap = (below + (up_to - below) / 2).mean() / len(positives)
    weights = sample.weights
    return {"overlap": float(overlap), "effective_sample_size": float(weights.sum() ** 2 / (weights**2).sum())}
