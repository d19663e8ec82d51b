"""Reads labelled scores, fits calibrators to them, and measures the calibrators."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.evaluation.by_relation import reliability_by_relation
from kgcore.evaluation.evaluate import Measured, evaluate
from kgcore.evaluation.predictions import Predictions
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.fit import fit_scores, left_out, usable
from kgcore.external.measure import cross_fitted, folds_of, of_test_rows
from kgcore.external.read import ScoreFile, read_scores
from kgcore.external.rows import ScoreRows
from kgcore.report.results import Results
from kgcore.report.scores import Counts, ScoresSummary, name_relations
from tasks.workspace.progress import progress_bar

EXAMPLES = 3  # rows of the input example of a LoggedModel


@dataclass(frozen=True)
class FittedScores:
    """What was fitted and measured, before it is logged.

    calibrators  the baselines, then the fitted calibrators
    predictions  probabilities of the measured rows
    measured     label -> metrics
    example      rows that show how to ask a calibrator
    rows         the rows that the calibrators are fitted to
    """

    calibrators: list[ScoreCalibrator]
    predictions: Predictions
    measured: dict[str, Measured]
    summary: ScoresSummary
    example: pd.DataFrame
    rows: ScoreRows


def read_labelled(path: Path, config: ScoresConfig) -> ScoreFile:
    """Read labelled scores, and show the progress. Raises InputError as `usable` and `read_scores` do."""
    usable(config)
    with progress_bar("read", 100) as move:
        return read_scores(path, config, lambda done: move(int(100 * done)))


def fit_and_measure(file: ScoreFile, config: ScoresConfig, evaluation: EvaluateConfig) -> FittedScores:
    """Fit the calibrators to labelled scores, and measure them on test rows or by cross-fitting.

    Raises InputError as `usable` does, FitError if a fit does not converge.
    """
    folds, held_out = 0, None
    if file.test is None:
        _, folds = folds_of(file.fit, config)
        with progress_bar("cross-fit", folds) as move:
            held_out = cross_fitted(file.fit, config, move)
    calibrators = fit_scores(file.fit, config)
    predictions = held_out or of_test_rows(file.test or file.fit, calibrators, config)
    with progress_bar("measure", evaluation.bootstrap_replicates) as move:
        measured = evaluate(predictions, evaluation, on_replicate=move)
    relations = reliability_by_relation(predictions) if file.has_relations else []
    counts = Counts(
        true=file.fit.positives,
        false=len(file.fit) - file.fit.positives,
        measured=len(predictions.labels),
        folds=folds,
        of_train=file.of_train,
        of_weight=file.of_weight,
    )
    summary = ScoresSummary(
        scorer=config.named,
        results=Results.of(measured),
        relations=name_relations(file.fit.names, relations),
        counts=counts,
        base_rate=calibrators[0].bound.base_rate,
        stated=config.base_rate is not None,
        unfitted=left_out(config),
    )
    return FittedScores(calibrators, predictions, measured, summary, _example(file.fit, config.scale), file.fit)


def _example(rows: ScoreRows, scale: str) -> pd.DataFrame:
    """Return a few rows that show how to ask a calibrator."""
    few = rows.part(np.linspace(0, len(rows) - 1, EXAMPLES).astype(np.int64))
    scores = expit(few.scores) if scale == "probability" else few.scores
    if few.relations is None:
        return pd.DataFrame({"score": scores})
    return pd.DataFrame({"score": scores, "relation": [few.names[number] for number in few.relations]})
