"""Cross-fitting: each row's probability comes from a calibrator fitted without that row."""

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, same_length
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.errors import InputError


def draw_folds(groups: Ints, labels: Labels, folds: int, rng: np.random.Generator) -> Ints:
    """Assign each row a fold (n,), 0 to folds - 1, at random.

    groups  (n,) rows with the same number stay in one fold
    labels  (n,) 0/1; groups with a positive and groups without are each spread evenly over the folds
    folds   at least 2

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


def cross_fitted(calibrator: type[Calibrator], sample: CalibrationSample, fold: Ints) -> Probabilities:
    """Probabilities (n,) of the rows of a sample, each from a calibrator fitted on the other folds.

    fold  (n,) the fold of each row

    Raises FitError if the rows outside a fold have one label only, or a fit does not converge.
    """
    q = np.empty(same_length(scores=sample.scores, fold=fold))
    for number in np.unique(fold):
        own = fold == number
        predicates = None if sample.predicates is None else sample.predicates[own]
        q[own] = calibrator.fit(sample.part(~own)).predict_of(sample.scores[own], predicates)
    return q
