"""Folds: random parts of rows. What is fitted to the others gives each of them its probability (cross-fitting)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, same_length
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights
from kgcore.errors import InputError, MismatchError
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable

if TYPE_CHECKING:  # scikit-learn loads slowly
    from kgcore.calibrate.base import Calibrator


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
    return fold[place]


def row_groups(table: ScoreTable, source: Ints, weighted: bool, cold: int | None = None) -> dict[str, Ints]:
    """Return, for each kind of negatives, the group number (n,) of each row of its sample. A group stays in one fold.

    source  (c,) for each validation corruption of the table that was not searched: the index, from 0, of the validation
            positive that it was made from
    cold    column of the cold entities in triples, 0 or 2, if valid was drawn by them: all rows of an entity, and the
            corruptions of its positives, are one group. None: valid was not drawn by entities

    In the synthetic sample, a positive and its corruptions are one group, and each searched row is a group. If the
    sample is weighted, it has no positives of relations without corruptions. In the ground-truth sample, each triple is
    a group. With confidences, a triple has two rows there (`soft_sample`), and the synthetic sample has no triple with
    the confidence 0.

    Raises MismatchError if `source` does not fit the table.
    """
    positives, drawn = np.flatnonzero(table.rows("valid", LABELLED, 1)), table.rows("valid", CORRUPTION)
    if len(source) != drawn.sum() or (len(source) and not 0 <= source.min() <= source.max() < len(positives)):
        raise MismatchError(
            f"{len(source):,} corruptions have a source, but the table has {int(drawn.sum()):,} corruptions of "
            f"{len(positives):,} positives: the sources and the table must come from one corrupt run"
        )
    of_positives = np.arange(len(positives)) if cold is None else table.triples[positives, cold]
    group = len(positives) + np.arange(len(table)) if cold is None else table.triples[:, cold].copy()
    group[drawn] = of_positives[source]
    corruptions, used = table.corruptions(), np.ones(len(positives), dtype=bool)
    truth = table.truth[table.rows("valid", LABELLED)]
    labelled = np.arange(len(truth)) if cold is None else table.triples[table.rows("valid", LABELLED), cold]
    if weighted:
        used = np.isin(table.triples[positives, 1], table.triples[corruptions, 1])
    if table.soft("valid"):
        used &= table.truth[positives] > 0
        labelled = np.r_[labelled[truth > 0], labelled[truth < 1]]
    return {"synthetic": np.r_[of_positives[used], group[corruptions]], "ground_truth": labelled}


def cross_fitted(calibrator: "type[Calibrator]", sample: CalibrationSample, fold: Ints) -> Probabilities:
    """Return a probability for each row of a sample (n,), from a calibrator fitted on all folds but the row's own.

    fold  (n,) the fold number of each row

    Raises FitError if the rows outside one fold all have the same label, or if a fit does not converge.
    """
    return cross_fitted_each({"": calibrator}, sample, fold)[""]


def cross_fitted_each(
    calibrators: "Mapping[str, type[Calibrator]]",
    sample: CalibrationSample,
    fold: Ints,
    base_rate: float | None = None,
    measured: int | None = None,
    on_fold: Callable[[int], None] = lambda done: None,
) -> dict[str, Probabilities]:
    """Do what `cross_fitted` does for several calibrators. Return name -> probabilities (n,).

    base_rate  share of positives, in (0, 1), that the rows of each fit are weighted to; None: their weights stay
    measured   only rows of that many folds, the first ones, get a probability, others NaN; None: all rows
    on_fold    function that is called after each fold, with the number of folds so far
    """
    q = {name: np.full(same_length(scores=sample.scores, fold=fold), np.nan) for name in calibrators}
    for done, number in enumerate(np.unique(fold)[:measured], start=1):
        own = fold == number
        scores, predicates = sample.scores[own], None if sample.predicates is None else sample.predicates[own]
        part = sample.part(~own)
        if base_rate is not None:
            part = replace(part, weights=base_rate_weights(part.labels, base_rate, counts=part.weights))
        for name, calibrator in calibrators.items():
            q[name][own] = calibrator().fit_sample(part).calibrate_of(scores, predicates)
        on_fold(done)
    return q
