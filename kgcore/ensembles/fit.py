"""Fit ensembles: calibrate the members, fit the pool to cross-fitted probabilities, and calibrate its output."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kgcore.arrays import Ints
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.fit import (
    SYNTHETIC,
    base_rate_of,
    calibration_samples,
    corruption_settings,
    ends_of,
    support_of,
)
from kgcore.calibration.folds import cross_fitted, draw_folds, row_groups
from kgcore.calibration.hidden import hidden_facts
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import ESTIMATED, CalibrateConfig, CorruptConfig, EnsembleConfig
from kgcore.ensembles.ensemble import Ensemble, Pooling
from kgcore.errors import InputError, MismatchError
from kgcore.registries import CALIBRATORS, POOLS
from kgcore.score_table import ScoreTable


def fit_ensembles(
    tables: Sequence[ScoreTable],
    source: Ints,
    corrupt: CorruptConfig,
    calibrate: CalibrateConfig,
    config: EnsembleConfig,
    rng: np.random.Generator,
) -> list[Ensemble]:
    """Fit every pool of the configuration on each kind of negatives.

    tables     (m) the score table of each member, all of the same rows
    source     (c,) for each validation corruption, in the order of the table: the index, from 0, of the validation
               positive that it was made from
    corrupt    the settings with which the corruptions were drawn; a member on synthetic negatives stores them
    calibrate  the base rate, and whether corruptions are weighted to it
    rng        random generator that draws the folds

    A member that overfits would get too much weight if the pool were fitted to rows that the member was calibrated on.
    So the validation rows are split into folds, with a positive and its corruptions in the same fold. The probability
    of each row comes from a calibrator fitted on the other folds (stacking: Wolpert 1992; van der Laan et al. 2007).
    The pool and its calibrator are fitted to these probabilities. The members of the returned ensembles are calibrated
    on all validation rows.

    A pool cannot correct a probability of 0 or 1. So the probabilities of the members are clipped to the range that the
    sample supports: see `bounds`.

    Raises InputError for fewer than two tables or for two tables of the same model, MismatchError if the tables have
    different rows or `source` does not fit them, FitError if a fit does not converge.
    """
    check_same_rows(tables)
    samples = [calibration_samples(table, calibrate) for table in tables]
    hidden = hidden_facts(tables[0])
    groups = row_groups(tables[0], source, calibrate.weighted)
    made = []
    for negatives in sorted(samples[0]):
        own, labelled = [sample[negatives] for sample in samples], negatives == "ground_truth"
        unfitted = partial(
            BoundCalibrator,
            negatives=negatives,
            base_rate=base_rate_of(own[0], negatives, calibrate),
            corruptions=corruption_settings(corrupt, negatives),
            base_rate_is=ESTIMATED if labelled else calibrate.base_rate_is,
            limits=None if labelled else calibrate.limits,
            hidden=hidden.share if hidden and negatives == SYNTHETIC else None,
        )
        ends = ends_of(tables[0], calibrate, hidden) if negatives == SYNTHETIC else ()
        made += _fit_pools(tables, unfitted, own, ends, groups[negatives], config, rng)
    return made


def check_same_rows(tables: Sequence[ScoreTable]) -> None:
    """Raise InputError for fewer than two tables or two tables of one model, MismatchError if their rows differ."""
    if len(tables) < 2:
        raise InputError(f"an ensemble needs at least two members: {len(tables)} given")
    first, models = tables[0], [table.model for table in tables]
    if len(set(models)) < len(models):
        raise InputError("two members of the ensemble are the same model: all models must differ")
    for number, table in enumerate(tables[1:], start=2):
        if table.dataset != first.dataset:
            raise MismatchError(
                f"member {number} of the ensemble has scores of another graph than member 1: "
                "all members need the same graph"
            )
        names = ("triples", "split", "origin", "weights")
        if not all(np.array_equal(getattr(table, name), getattr(first, name)) for name in names):
            raise MismatchError(
                f"member {number} of the ensemble was scored on other rows than member 1: "
                "all members need the same corruptions"
            )


def _fit_pools(
    tables: Sequence[ScoreTable],
    unfitted: Callable[..., BoundCalibrator],
    samples: Sequence[CalibrationSample],
    ends: Sequence[CalibrationSample],
    groups: Ints,
    config: EnsembleConfig,
    rng: np.random.Generator,
) -> list[Ensemble]:
    """Fit every pool of the configuration on one kind of negatives.

    unfitted  binds a calibrator of the samples: it knows their kind of negatives and their base rate
    samples   (m) the calibration sample of each member
    ends      samples at the ends of the interval of the hidden share: see `support_of`
    groups    (n,) the group number of each row; rows of one group stay in one fold
    """
    name = config.member_calibrator
    calibrator, labels, weights = CALIBRATORS.get(name), samples[0].labels, samples[0].weights
    fold = draw_folds(groups, labels, config.folds, rng)
    low, high = bounds(samples[0])
    held_out = np.stack([cross_fitted(calibrator, sample, fold) for sample in samples], axis=1).clip(low, high)
    members = tuple(
        unfitted(name=name, model=table.model, dataset=table.dataset, calibrator=calibrator().fit_sample(sample))
        for table, sample in zip(tables, samples, strict=True)
    )
    made = []
    for kind in config.pools:
        pool = POOLS.get(kind).fit(held_out, labels, weights)
        pooled = replace(samples[0], scores=pool.log_odds(held_out))
        again = CALIBRATORS.get(config.recalibrator)().fit_sample(pooled)
        pooling = Pooling(members, low, high, kind, pool)
        recalibrated = replace(
            members[0],
            name=config.recalibrator,
            model=pooling.fingerprint(),
            calibrator=again,
            support=support_of(pooled, again.by_predicate, ends),
        )
        made.append(Ensemble(pooling, recalibrated))
    return made


def bounds(sample: CalibrationSample) -> tuple[float, float]:
    """Return the lowest and the highest probability that the members may give to the pool, at the sample's base rate.

    No sample supports a likelihood ratio below 1 / (N+ + 2) or above N- + 2: N+ positives cannot show that a score is
    rarer among positives than that, and N- negatives not that it is rarer among negatives. At the base rate alpha, a
    likelihood ratio l is the probability l alpha / (l alpha + 1 - alpha).
    """
    negatives, positives = sample.sizes
    odds = sample.base_rate / (1 - sample.base_rate)
    low, high = odds / (positives + 2), odds * (negatives + 2)
    return low / (1 + low), high / (1 + high)
