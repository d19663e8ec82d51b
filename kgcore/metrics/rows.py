"""Checks of the rows that metrics are computed from: a probability, a label and a weight for each triple."""

from kgcore.arrays import Labels, Probabilities, Weights, as_probabilities, as_truth, as_weights, same_length


def judged_rows(
    probabilities: Probabilities, labels: Labels, weights: Weights | None
) -> tuple[Probabilities, Labels, Weights]:
    """Validate probabilities in [0, 1], labels or confidences in [0, 1], and weights > 0 (None: ones), each (n,).

    Return them.

    Raises InputError for arrays of different lengths and for values out of range.
    """
    n = same_length(probabilities=probabilities, labels=labels)
    return as_probabilities(probabilities, n), as_truth(labels, n), as_weights(weights, n)
