"""Labelled triples shared by the tests of monitoring."""

import numpy as np
from scipy.special import expit


def labelled_triples(rng: np.random.Generator, n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw scores (n,) and labels (n,), and return them with the probabilities sigmoid(score) (n,).

    A label is true with probability sigmoid(score + shift).
    """
    scores = rng.normal(size=n) * 2
    return scores, expit(scores), (rng.random(n) < expit(scores + shift)).astype(float)
