"""Cross-fitting: the probability of each row comes from a calibrator that was fitted without this row."""

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, same_length
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
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


def cross_fitted(calibrator: type[Calibrator], sample: CalibrationSample, fold: Ints) -> Probabilities:
    """Return a probability for each row of a sample (n,), from a calibrator fitted on all folds but the row's own.

    fold  (n,) the fold number of each row

    Raises FitError if the rows outside one fold all have the same label, or if a fit does not converge.
    """
    q = np.empty(same_length(scores=sample.scores, fold=fold))
    for number in np.unique(fold):
        own = fold == number
        predicates = None if sample.predicates is None else sample.predicates[own]
        q[own] = calibrator().fit_sample(sample.part(~own)).calibrate_of(sample.scores[own], predicates)
    return q
