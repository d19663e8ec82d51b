"""Folds: random parts of rows, so that what is fitted to the others judges each of them."""

import numpy as np

from kgcore.arrays import Ints, Labels, same_length
from kgcore.errors import InputError


def draw_folds(groups: Ints, labels: Labels, folds: int, rng: np.random.Generator) -> Ints:
    """Assign each row to a fold at random. Return the fold numbers (n,), 0 to folds - 1.

    groups  (n,) the group number of each row; rows of one group get the same fold
    labels  (n,) 0/1. Groups that contain a positive are spread evenly over the folds, and so are the other groups.
    folds   number of folds, at least 2

    Raises InputError for fewer than 2 folds and for arrays of different lengths.
    """
    if folds < 2:
        raise InputError(f"folds is {folds}: it must be at least 2")
    same_length(groups=groups, labels=labels)
    distinct, place = np.unique(groups, return_inverse=True)
    positive = np.bincount(place, weights=labels, minlength=len(distinct)) > 0
    drawn = rng.permutation(len(distinct))
    order = drawn[np.argsort(positive[drawn], kind="stable")]
    fold = np.empty(len(distinct), dtype=np.int64)
    fold[order] = np.arange(len(distinct)) % folds
    found: Ints = fold[place]
    return found
