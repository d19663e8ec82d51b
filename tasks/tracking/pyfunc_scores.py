"""The loader of the MLflow pyfunc that every calibrator of scores is: MLflow calls `_load_pyfunc`.

Logged models store the name of this module. It must keep its name and its place, or models that were logged before
cannot be loaded.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException

from kgcore.errors import InputError, KgcalError
from kgcore.external.answers import ANSWERS
from kgcore.external.calibrator import UNKNOWN, ScoreCalibrator
from kgcore.external.rows import log_odds
from kgcore.storage import read_score_calibrator

SCORE, RELATION, SCORER = "score", "relation", "scorer"


class ScoreAnswering:
    """A calibrator of scores with the interface of an MLflow pyfunc."""

    def __init__(self, calibrator: ScoreCalibrator) -> None:
        self._calibrator = calibrator

    def predict(self, model_input: pd.DataFrame, params: Mapping[str, float | None] | None = None) -> pd.DataFrame:
        """Return the probability of each row and the ends of its 95 % interval: columns probability, low, high.

        model_input  n rows, at least 1. Column score: on the scale of the scores that the calibrator was fitted to.
                     Column relation: needed if the calibrator has a map for each relation. Column scorer, optional: the
                     name of the scorer, which must be that of the calibrator
        params       base_rate: the share of true rows that the probabilities assume; None: that of the calibrator

        Raises MlflowException, which a server answers with status 400, for input that cannot be used.
        """
        base_rate = (params or {}).get("base_rate")
        try:
            calibrator = self._calibrator if base_rate is None else self._calibrator.at(base_rate)
            found = calibrator.predict(*self._read(model_input))
        except KgcalError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame(dict(zip(ANSWERS, found, strict=True)), index=model_input.index)

    def _read(self, rows: pd.DataFrame) -> "tuple[np.typing.NDArray[np.float64], np.typing.NDArray[np.int64] | None]":
        """Return the scores on the scale of the calibrator and the numbers of the relations. Raises InputError."""
        calibrator = self._calibrator
        if not len(rows):
            raise InputError("the input has no rows: it must have at least one score")
        if SCORER in rows:
            for scorer in rows[SCORER].dropna().unique():
                calibrator.check_scorer(str(scorer))
        scores = rows[SCORE].to_numpy(np.float64)
        if not np.isfinite(scores).all():
            raise InputError("the column score has values that are missing or not finite: every score must be a number")
        if calibrator.scale == "probability":
            if scores.min() < 0 or scores.max() > 1:
                raise InputError(
                    "the column score has values outside [0, 1]: the scores of this model are probabilities"
                )
            scores = log_odds(scores)
        if not calibrator.bound.calibrator.by_predicate:
            return scores, None
        if RELATION not in rows:
            raise InputError("the input has no column relation: this model has a map for each relation")
        numbers = {name: number for number, name in enumerate(calibrator.relations)}
        return scores, np.array([numbers.get(str(name), UNKNOWN) for name in rows[RELATION]], dtype=np.int64)

    def get_raw_model(self) -> ScoreCalibrator:
        """Return the calibrator itself."""
        return self._calibrator


def _load_pyfunc(path: str, model_config: Mapping[str, str] | None = None) -> ScoreAnswering:
    """Load the model from the files of its LoggedModel. `path` is a folder with score_calibrator.json.

    Raises MlflowException if the file is missing or damaged.
    """
    try:
        return ScoreAnswering(read_score_calibrator(Path(path)))
    except (KgcalError, OSError, KeyError, ValueError) as error:
        raise MlflowException.invalid_parameter_value(f"the calibrator in {path} cannot be read: {error}") from error
