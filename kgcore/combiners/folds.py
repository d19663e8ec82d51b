"""Folds of a sample: rows of one group stay together, and each fold has its share of positives and negatives."""

import numpy as np

from kgcore.arrays import Ints
from kgcore.combiners.base import EvidenceSample


def sample_folds(sample: EvidenceSample, folds: int, rng: np.random.Generator) -> Ints:
    """Assign the rows of a sample to folds at random. Return the fold (n,) of each row, 0 to folds - 1.

    Groups with the same numbers of positives and negatives are dealt to the folds in turn, so that these numbers of
    groups differ by at most one between folds.
    """
    groups = np.arange(len(sample)) if sample.groups is None else np.unique(sample.groups, return_inverse=True)[1]
    size = int(groups.max()) + 1
    positives = np.bincount(groups, sample.labels, size)
    rows = np.bincount(groups, minlength=size)
    order = np.lexsort((rng.random(size), rows, positives))
    fold_of_group = np.empty(size, dtype=np.int64)
    fold_of_group[order] = np.arange(size) % folds
    found: Ints = fold_of_group[groups]
    return found
