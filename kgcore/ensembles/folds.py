"""Cross-fitting: probabilities of calibrators that have not seen the row."""

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, same_length
from kgcore.calibration.base import Calibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.errors import InputError


def draw_folds(groups: Ints, labels: Labels, folds: int, rng: np.random.Generator) -> Ints:
    """The fold (n,), 0 to folds - 1, of each row: rows of a group (n,) stay together, and both groups with a positive
    and groups without are spread evenly, at random.

    Raises InputError where there are fewer than 2 folds.
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
    """Probabilities (n,) of the sample's rows, each by the calibrator fitted on the other folds (n,).

    Raises FitError where the rows outside a fold have one label only.
    """
    q = np.empty(same_length(scores=sample.scores, fold=fold))
    for number in np.unique(fold):
        own = fold == number
        predicates = None if sample.predicates is None else sample.predicates[own]
        q[own] = calibrator.fit(sample.part(~own)).predict_of(sample.scores[own], predicates)
    return q
