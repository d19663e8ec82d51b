"""Cross-fitting: log-odds of rows by combiners that have not seen them."""

from collections.abc import Callable

import numpy as np

from kgcore.arrays import Floats, Ints, Labels
from kgcore.combiners.base import Combiner, EvidenceSample


def cross_fit(
    make: Callable[[], Combiner], sample: EvidenceSample, folds: int, rng: np.random.Generator
) -> tuple[Combiner, Floats]:
    """Fit a combiner to all rows of a sample, and one to the rows of all folds but one, for each fold.

    make   returns an unfitted combiner
    folds  parts of the rows, at least 2; each has the same shares of labels

    Return the first combiner, and the log-odds (n,) of each row by the combiner that has not seen its fold. Raises
    FitError if a fit does not converge.
    """
    part = folds_of(sample.labels, folds, rng)
    log_odds = np.empty(len(sample))
    for fold in range(folds):
        own = part == fold
        fitted = make().fit(sample.part(~own), rng)
        log_odds[own] = fitted.log_odds(sample.values[own], sample.predicates[own])
    return make().fit(sample, rng), log_odds


def folds_of(labels: Labels, folds: int, rng: np.random.Generator) -> Ints:
    """Return a random fold (n,), from 0, for each row, so that each fold has the same shares of labels."""
    order = np.lexsort((rng.random(len(labels)), labels))
    part = np.empty(len(labels), dtype=np.int64)
    part[order] = np.arange(len(labels)) % folds
    return part
