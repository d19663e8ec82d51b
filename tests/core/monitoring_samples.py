"""Labelled triples shared by the tests of monitoring."""

import numpy as np
from scipy.special import expit

from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample


def labelled_triples(rng: np.random.Generator, n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw scores (n,) and labels (n,), and return them with the probabilities sigmoid(score) (n,).

    A label is true with probability sigmoid(score + shift).
    """
    scores = rng.normal(size=n) * 2
    return scores, expit(scores), (rng.random(n) < expit(scores + shift)).astype(float)


def drawn(rng: np.random.Generator, n: int, base_rate: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Draw scores (n,) and labels (n,): scores are normal, around 1 for true and around -1 for false triples.

    So the log-odds are 2 f + logit(base rate).
    """
    labels = (rng.random(n) < base_rate).astype(float)
    return rng.normal(2 * labels - 1), labels


def ground_truth(rng: np.random.Generator, n: int) -> CalibrationSample:
    """Draw a calibration sample of n labelled triples, half of them true."""
    return ground_truth_sample(*drawn(rng, n))


def synthetic(rng: np.random.Generator, positives: int, eta: int, base_rate: float) -> CalibrationSample:
    """Draw a calibration sample of positives and eta corruptions of each, weighted to the base rate."""
    return synthetic_sample(rng.normal(1, size=positives), rng.normal(-1, size=positives * eta), base_rate)
