"""Fit calibrators to a table of labelled scores, and measure them on rows that they were not fitted on."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from kgcore.arrays import Probabilities, draw_folds
from kgcore.calibrate.calibrated import stored_class
from kgcore.calibrate.fit import BASELINES_OF_SCORES, GROUND_TRUTH, fit_labelled, labelled_sample
from kgcore.calibrate.sample import weights_at
from kgcore.calibrate.validation import held_folds
from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.errors import InputError, KgcalWarning
from kgcore.measure.evaluation.evaluate import Measured, evaluate, miscalibrated
from kgcore.measure.evaluation.groups import reliability_by_relation
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.report.result import Brief
from kgcore.measure.report.results import Results
from kgcore.measure.report.scores import RowCounts, ScoresSummary
from kgcore.measure.report.summary import briefs
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import ScoreTable
from kgcore.wings.external.calibrator import ScoreCalibrator
from kgcore.wings.external.rows import ScoreFile


def usable(config: ScoresConfig) -> tuple[str, ...]:
    """Return the calibrators that are fitted: without a column of relations, the default ones that need none.

    Raises InputError if the configuration has other calibrators than the default ones, and one of them needs relations.
    """
    needy = [name for name in config.calibrators if CALIBRATORS.get(name).by_predicate]
    if needy and not config.relation and config.calibrators != ScoresConfig().calibrators:
        raise InputError(
            f"{', '.join(needy)} needs relations: name their column with --relation, or leave it out of --calibrators"
        )
    return tuple(name for name in config.calibrators if config.relation or name not in needy)


def fit_scores(table: ScoreTable, config: ScoresConfig) -> list[ScoreCalibrator]:
    """Fit the two baselines and the `usable` calibrators to the rows of valid as `fit_labelled` does."""
    bound = fit_labelled(table, usable(config), np.random.default_rng(config.fold_seed))
    return [ScoreCalibrator(config.named, config.scale, table.relations, fitted) for fitted in bound]


def of_test_rows(table: ScoreTable, calibrators: Sequence[ScoreCalibrator]) -> Predictions:
    """Return the probabilities of the rows of test, weighted to the base rate of the table if it has one."""
    rows = table.part(table.rows("test"))
    q = {fitted.bound.label: fitted.calibrate(rows.scores, rows.triples[:, 1])[0] for fitted in calibrators}
    return _predictions(rows, q)


def of_other_folds(
    table: ScoreTable, config: ScoresConfig, on_fold: Callable[[int], None] = lambda done: None
) -> Predictions:
    """Return the probabilities of rows of valid, each from calibrators that were fitted on the other folds.

    The folds have about equal numbers of true and of false rows, and at least one of each: see `folds_of`. The rows of
    each fit are weighted to the base rate of the table, if it has one.

    on_fold  function that is called after each fold, with the number of folds so far
    """
    sample, stated = labelled_sample(replace(table, labelled_base_rate=None)), table.labelled_share
    n, (folds, measured) = len(sample.labels), folds_of(table, config)
    fold = draw_folds(np.arange(n), sample.labels, folds, np.random.default_rng(config.fold_seed))
    order = np.argsort(fold, kind="stable")[: int((fold < measured).sum())]
    labels = {name: name for name in BASELINES_OF_SCORES} | {f"{GROUND_TRUTH}.{name}": name for name in usable(config)}
    classes = {label: stored_class(name) for label, name in labels.items()}
    q = {label: np.full(n, np.nan) for label in classes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KgcalWarning)  # the final fit gives the same warning once
        for done, (held, asked, others) in enumerate(islice(held_folds(sample, fold, stated), measured), start=1):
            for label, kind in classes.items():
                q[label][held] = kind().fit_sample(others).calibrate_of(*asked)
            on_fold(done)
    if stated is not None:
        q["base_rate"][:] = stated  # without the rounding errors of the weights, which would break ties
    rows = table.part(np.flatnonzero(table.rows("valid"))[order])
    return _predictions(rows, {label: probabilities[order] for label, probabilities in q.items()})


def folds_of(table: ScoreTable, config: ScoresConfig) -> tuple[int, int]:
    """Return the number of folds, and how many of them are measured.

    There are `config.folds`, or fewer if there are fewer true or false rows. Whole folds are measured, at least one, as
    long as they have at most `config.most_measured` rows together.
    """
    true, false = (int(table.rows("valid", label=label).sum()) for label in (1, 0))
    folds = min(config.folds, true, false)
    return folds, min(folds, max(1, config.most_measured * folds // (true + false)))


def _predictions(table: ScoreTable, probabilities: dict[str, Probabilities]) -> Predictions:
    """Return the probabilities of all rows of a table, weighted to its base rate if it has one."""
    weights = weights_at(table.labels, table.labelled_share, table.weights)
    return Predictions(table.triples, table.labels, weights, table.scores, probabilities)


@dataclass(frozen=True)
class FittedScores:
    """What was fitted and measured, before it is logged.

    calibrators  the baselines, then the fitted calibrators
    predictions  probabilities of the measured rows
    measured     label -> metrics
    table        the rows
    """

    calibrators: list[ScoreCalibrator]
    predictions: Predictions
    measured: dict[str, Measured]
    summary: ScoresSummary
    table: ScoreTable

    @property
    def best(self) -> tuple[str, float]:
        """Return the label of the fitted calibrator with the best Brier score, and this score."""
        best = self.summary.results.best_fitted()
        assert best is not None
        return best.label, best.metrics["brier"]


def fit_and_measure(
    file: ScoreFile,
    config: ScoresConfig,
    evaluation: EvaluateConfig,
    progress: Callable[[str, int], AbstractContextManager[Callable[[int], None]]],
) -> FittedScores:
    """Fit the calibrators to labelled scores, and measure them on test rows or by cross-fitting.

    progress  opens a bar for a title and a number of steps

    Raises InputError as `usable` does, FitError if a fit does not converge.
    """
    table, folds = file.table, 0
    calibrators = fit_scores(table, config)
    if table.rows("test").any():
        predictions = of_test_rows(table, calibrators)
    else:
        _, folds = folds_of(table, config)
        with progress("cross-fit", folds) as move:
            predictions = of_other_folds(table, config, move)
    with progress("measure", evaluation.bootstrap_replicates) as move:
        measured = evaluate(predictions, evaluation, on_replicate=move)
    by_relation = reliability_by_relation(predictions) if table.relations else []
    counts = RowCounts(
        true=int(table.rows("valid", label=1).sum()),
        false=int(table.rows("valid", label=0).sum()),
        measured=len(predictions.labels),
        folds=folds,
        of_train=file.of_train,
        of_weight=file.of_weight,
    )
    bounds = {one.bound.label: one.bound for one in calibrators if one.bound.support}
    found = briefs(bounds, predictions, measured, miscalibrated(bounds, predictions, measured))
    best = (results := Results.of(measured)).best_fitted()
    summary = ScoresSummary(
        scorer=config.named,
        results=results,
        relations={table.relations[reliability.predicate]: reliability for reliability in by_relation},
        counts=counts,
        base_rate=calibrators[0].bound.base_rate,
        stated=table.labelled_base_rate is not None,
        unfitted=tuple(name for name in config.calibrators if name not in usable(config)),
        hints=(*_about_scale(table, config), *predictions.far_from_base_rate(GROUND_TRUTH)),
        brief=found[best.label] if best else Brief(""),
    )
    return FittedScores(calibrators, predictions, measured, summary, table)


def _about_scale(table: ScoreTable, config: ScoresConfig) -> list[str]:
    """Return a sentence if the scores may be probabilities, and are not read as such."""
    if config.scale == "probability" or table.scores.min() < 0 or table.scores.max() > 1:
        return []
    return [
        "All scores are from 0 to 1. If they are probabilities, give --scale probability: the row uncalibrated then "
        "shows how good they are, and not those of their sigmoid."
    ]
