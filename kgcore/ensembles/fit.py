"""Fitting ensembles: calibrated members, cross-fitted, pooled, and calibrated again."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kgcore.arrays import Ints, Labels
from kgcore.calibration.base import BoundCalibrator
from kgcore.calibration.fit import calibration_samples, distribution
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import CalibrateConfig, CorruptConfig, EnsembleConfig
from kgcore.ensembles.ensemble import Ensemble
from kgcore.ensembles.folds import cross_fitted, draw_folds
from kgcore.errors import InputError, MismatchError
from kgcore.registries import CALIBRATORS, POOLS
from kgcore.score_table import CORRUPTION, LABELLED, ScoreTable


def fit_ensembles(
    tables: Sequence[ScoreTable],
    source: Ints,
    drawn: CorruptConfig,
    calibrate: CalibrateConfig,
    config: EnsembleConfig,
    rng: np.random.Generator,
) -> list[Ensemble]:
    """Every pool of the configuration, by every kind of negatives there is.

    tables     the scores of each member (m), of the same rows
    source     (c,) the validation positive that each of the c validation corruptions was made from
    drawn      how the corruptions were, which the members' synthetic calibrators tell
    calibrate  the base rate, and whether corruptions are weighted to it
    rng        draws the folds

    Weights that are learned on probabilities of the rows that those were fitted on favour members that fit too well.
    So the validation rows are split into folds, a positive and its corruptions in one of them, and each row's
    probability is that of a calibrator fitted on the other folds (stacking: Wolpert 1992; van der Laan et al. 2007).
    On these the pool's weights are learned, and on what is pooled of these, it is calibrated again. For use, the
    members are then calibrated on all validation rows.

    A calibrator that is sure says 0 or 1, which no pool recovers from: members are held between 1 / (N- + 2) and
    (N+ + 1) / (N+ + 2), N+ and N- counting the labels, which are the targets of Platt's smoothing.

    Raises MismatchError where the tables are not of the same rows, FitError when a fit does not converge.
    """
    check_same_rows(tables)
    samples = [calibration_samples(table, calibrate) for table in tables]
    groups = _groups(tables[0], source)
    made = []
    for negatives in sorted(samples[0]):
        about = distribution(drawn, negatives)
        made += _fit(tables, negatives, about, [sample[negatives] for sample in samples], groups, config, rng)
    return made


def check_same_rows(tables: Sequence[ScoreTable]) -> None:
    """Raise InputError for fewer than two tables or two of one model, MismatchError where they are not of the same
    rows."""
    if len(tables) < 2:
        raise InputError(f"an ensemble of {len(tables)}: at least two members are needed")
    first, models = tables[0], [table.model for table in tables]
    if len(set(models)) < len(models):
        raise InputError("two members of the ensemble are the same model: each must be another")
    for number, table in enumerate(tables[1:], start=2):
        if table.dataset != first.dataset:
            raise MismatchError(f"member {number} of the ensemble is of another graph than member 1")
        same = (np.array_equal(getattr(table, name), getattr(first, name)) for name in ("triples", "split", "origin"))
        if not all(same):
            raise MismatchError(f"member {number} of the ensemble was scored on other corruptions than member 1")


def _groups(table: ScoreTable, source: Ints) -> dict[str, Ints]:
    """negatives -> the group (n,) of each row of its sample: a positive with its corruptions; a labelled triple."""
    positives, corruptions = (int(table.rows("valid", *kind).sum()) for kind in ((LABELLED, 1), (CORRUPTION,)))
    if len(source) != corruptions or (len(source) and not 0 <= source.min() <= source.max() < positives):
        raise MismatchError(
            f"{len(source):,} corruptions have a source, {corruptions:,} of {positives:,} positives were scored: "
            "they do not belong together"
        )
    labelled = int(table.rows("valid", LABELLED).sum())
    return {"synthetic": np.r_[np.arange(positives), source], "ground_truth": np.arange(labelled)}


def _fit(
    tables: Sequence[ScoreTable],
    negatives: str,
    about: dict[str, Any] | None,
    samples: Sequence[CalibrationSample],
    groups: dict[str, Ints],
    config: EnsembleConfig,
    rng: np.random.Generator,
) -> list[Ensemble]:
    name = config.member_calibrator
    calibrator, labels, weights = CALIBRATORS.get(name), samples[0].labels, samples[0].weights
    fold = draw_folds(groups[negatives], labels, config.folds, rng)
    low, high = bounds(labels)
    held_out = np.stack([cross_fitted(calibrator, sample, fold) for sample in samples], axis=1).clip(low, high)
    members = tuple(
        BoundCalibrator(
            name, negatives, sample.base_rate, table.model, table.dataset, calibrator.fit(sample), corruptions=about
        )
        for table, sample in zip(tables, samples, strict=True)
    )
    made = []
    for kind in config.pools:
        pool = POOLS.get(kind).fit(held_out, labels, weights)
        pooled = CalibrationSample(pool.log_odds(held_out), labels, weights, samples[0].predicates)
        again = CALIBRATORS.get(config.recalibrator).fit(pooled)
        made.append(Ensemble(members, low, high, kind, pool, config.recalibrator, again))
    return made


def bounds(labels: Labels) -> tuple[float, float]:
    """1 / (N- + 2) and (N+ + 1) / (N+ + 2), N+ and N- counting the labels (n,): Platt's smoothed targets."""
    positives, negatives = float((labels == 1).sum()), float((labels == 0).sum())
    return 1 / (negatives + 2), (positives + 1) / (positives + 2)
