"""Proper scores: lowest in expectation for the true probabilities and nothing else."""

import numpy as np

from kgcore.arrays import Labels, Probabilities, Weights, as_labels, as_probabilities, as_weights, same_length

CLIP = 1e-7  # as in the published code


def brier(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """sum_i w_i (q_i - y_i)^2 / sum_i w_i, in [0, 1]. Brier 1950; paper, section 4, equation 2.

    Raises InputError for probabilities outside [0, 1] or labels other than 0 and 1.
    """
    q, y, w = checked(probabilities, labels, weights)
    return float(np.average((q - y) ** 2, weights=w))


def log_loss(probabilities: Probabilities, labels: Labels, weights: Weights | None = None, clip: float = CLIP) -> float:
    """-sum_i w_i [y_i log q_i + (1 - y_i) log(1 - q_i)] / sum_i w_i, in nats, q clipped to [clip, 1 - clip].

    Paper, section 4. Raises InputError as `brier` does.
    """
    q, y, w = checked(probabilities, labels, weights)
    q = q.clip(clip, 1 - clip)
    return float(-np.average(y * np.log(q) + (1 - y) * np.log1p(-q), weights=w))


def checked(
    probabilities: Probabilities, labels: Labels, weights: Weights | None
) -> tuple[Probabilities, Labels, Weights]:
    """The three arrays, of one length and in range. Raises InputError otherwise."""
    n = same_length(probabilities=probabilities, labels=labels)
    return as_probabilities(probabilities, n), as_labels(labels, n), as_weights(weights, n)
