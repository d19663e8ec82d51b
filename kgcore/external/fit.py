"""Fit calibrators to labelled scores."""

import numpy as np

from kgcore.calibration.base import Calibrator
from kgcore.calibration.baselines.base_rate import BaseRate
from kgcore.calibration.baselines.uncalibrated import Uncalibrated
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.support import Support
from kgcore.config import ESTIMATED, STATED, ScoresConfig
from kgcore.errors import InputError
from kgcore.external.calibrator import ScoreCalibrator, scorer_fingerprint
from kgcore.external.rows import ScoreRows
from kgcore.registries import CALIBRATORS

NEGATIVES = "ground_truth"  # the false rows are labelled


def usable(config: ScoresConfig) -> tuple[str, ...]:
    """Return the calibrators that are fitted: without a column of relations, the default ones that need none.

    Raises InputError if the configuration has other calibrators than the default ones, and one of them needs relations.
    """
    needy = [name for name in config.calibrators if CALIBRATORS.get(name).by_predicate]
    if needy and not config.relation and config.calibrators != ScoresConfig.calibrators:
        raise InputError(
            f"{', '.join(needy)} needs relations: name their column with --relation, or leave it out of --calibrators"
        )
    return tuple(name for name in config.calibrators if config.relation or name not in needy)


def left_out(config: ScoresConfig) -> tuple[str, ...]:
    """Return the default calibrators that are not fitted, because they need relations and there are none."""
    names = usable(config)
    return tuple(name for name in config.calibrators if name not in names)


def fit_plain(rows: ScoreRows, config: ScoresConfig) -> dict[str, Calibrator]:
    """Fit the two baselines and the `usable` calibrators of the configuration. Return name -> calibrator.

    The baselines are the sigmoid of the score, `uncalibrated`, and the constant base rate, `base_rate`. Raises FitError
    if a fit does not converge.
    """
    sample = rows.sample(config.base_rate)
    baselines = {
        "uncalibrated": Uncalibrated().set_fitted(),
        "base_rate": BaseRate().set_fitted(alpha=rows.base_rate(config.base_rate)),
    }
    return baselines | {name: CALIBRATORS.get(name)().fit_sample(sample) for name in usable(config)}


def fit_scores(rows: ScoreRows, config: ScoresConfig) -> list[ScoreCalibrator]:
    """Fit as `fit_plain` does, with confidence limits, and bind the calibrators to the scorer and the rows.

    If the rows have weights, the limits are those of `ScoreRows.evenly_weighted`.
    """
    fitted = fit_plain(rows, config)
    alpha = rows.base_rate(config.base_rate)
    model, dataset = scorer_fingerprint(config.named, config.scale), rows.fingerprint()
    even = rows.evenly_weighted(np.random.default_rng(config.fold_seed))
    names = usable(config)
    support = {kind: _support(even, alpha, kind) for kind in {fitted[name].by_predicate for name in names}}
    origin = ESTIMATED if config.base_rate is None else STATED
    found = []
    for name, calibrator in fitted.items():
        own = name in names
        bound = BoundCalibrator(
            name,
            NEGATIVES if own else "none",
            alpha,
            model,
            dataset,
            calibrator,
            base_rate_is=origin,
            support=support[calibrator.by_predicate] if own else None,
        )
        found.append(ScoreCalibrator(config.named, config.scale, rows.names, bound))
    return found


def _support(rows: ScoreRows, alpha: float, by_predicate: bool) -> Support:
    """Return the confidence limits of rows without weights, at the base rate. Relations count if `by_predicate`."""
    predicates = rows.predicates if by_predicate else None
    sample = CalibrationSample(rows.scores, rows.labels, rows.weights_at(alpha), predicates)
    return Support.fit(sample, by_predicate)
