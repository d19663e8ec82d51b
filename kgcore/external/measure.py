"""Probabilities to measure: those of test rows, or of rows that the calibrator was not fitted on."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from kgcore.arrays import Probabilities
from kgcore.calibration.base import Calibrator
from kgcore.calibration.folds import draw_folds
from kgcore.config import ScoresConfig
from kgcore.errors import KgcalWarning
from kgcore.evaluation.predictions import Predictions
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.fit import NEGATIVES, fit_plain
from kgcore.external.rows import ScoreRows


def of_test_rows(test: ScoreRows, calibrators: Sequence[ScoreCalibrator], config: ScoresConfig) -> Predictions:
    """Return the probabilities of test rows, weighted to the base rate of the configuration if it states one."""
    found = {one.bound.label: one.predict(test.scores, test.predicates)[0] for one in calibrators}
    return _predictions(test, found, config)


def cross_fitted(
    rows: ScoreRows, config: ScoresConfig, on_fold: Callable[[int, int], None] = lambda done, all_folds: None
) -> Predictions:
    """Return the probabilities of rows, each from calibrators that were fitted on the other folds.

    The folds have about equal numbers of true and of false rows, and at least one of each: see `folds_of`.

    on_fold  function that is called after each fold, with the number of folds done and of those to do
    """
    rng = np.random.default_rng(config.fold_seed)
    folds, chosen = folds_of(rows, config)
    fold = draw_folds(np.arange(len(rows)), rows.labels, folds, rng).astype(np.int8)
    parts: list[ScoreRows] = []
    found: dict[str, list[Probabilities]] = {}
    for number in range(chosen):
        held = rows.part(fold == number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KgcalWarning)  # the final fit gives the same warning once
            fitted = fit_plain(rows.part(fold != number), config)
        for name, calibrator in fitted.items():
            q = calibrator.calibrate_of(held.scores, held.predicates)
            found.setdefault(_label(name, calibrator, config), []).append(q)
        parts.append(held)
        on_fold(number + 1, chosen)
    return _predictions(ScoreRows.joined(parts), {label: np.concatenate(q) for label, q in found.items()}, config)


def folds_of(rows: ScoreRows, config: ScoresConfig) -> tuple[int, int]:
    """Return the number of folds, and how many of them are measured.

    There are `config.folds`, or fewer if there are fewer true or false rows. Whole folds are measured, at least one, as
    long as they have at most `config.most_measured` rows together.
    """
    folds = min(config.folds, rows.positives, len(rows) - rows.positives)
    return folds, min(folds, max(1, config.most_measured * folds // len(rows)))


def _label(name: str, calibrator: Calibrator, config: ScoresConfig) -> str:
    return f"{NEGATIVES}.{name}" if name in config.calibrators else name


def _predictions(rows: ScoreRows, found: dict[str, Probabilities], config: ScoresConfig) -> Predictions:
    triples = np.zeros((len(rows), 3), dtype=np.int64)
    if rows.relations is not None:
        triples[:, 1] = rows.relations
    return Predictions(
        triples=triples,
        labels=rows.labels,
        weights=rows.weights_at(config.base_rate),
        scores=rows.scores,
        probabilities=found,
        accuracies={},
        accuracy_per_relation={},
        relations=[],
        synthetic_negatives=False,
    )
