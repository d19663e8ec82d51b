"""The loader of the MLflow pyfunc that every calibrator, of a model or of scores, and every ensemble is.

MLflow calls `_load_pyfunc`, in any environment that has kgcal. So this module imports neither `flows` nor `tasks`.

Logged models store the name of this module. It must keep its name and its place, or models that were logged before
cannot be loaded.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow.artifacts
import pandas as pd
from mlflow.exceptions import MlflowException

from kgcore.answer.loaded import LoadedModel, missing_parts, read_calibrated
from kgcore.errors import InputError, KgcalError, first_line
from kgcore.wings.external.calibrator import SCORE_CALIBRATOR_FILE, ScoreCalibrator


class PyfuncModel:
    """A calibrated model with the interface of an MLflow pyfunc."""

    def __init__(self, model: LoadedModel | ScoreCalibrator) -> None:
        self._model = model

    def predict(self, model_input: pd.DataFrame, params: Mapping[str, float | None] | None = None) -> pd.DataFrame:
        """Answer rows, as `predict` of LoadedModel and ScoreCalibrator do. A missing value is None: JSON has null.

        model_input  n rows, at least 1: the columns subject, predicate and object as text, or those of scores
        params       base_rate and, of triples, threshold and at_least. None stands for the default

        Raises MlflowException, which a server answers with status 400, for input that cannot be used. MLflow leaves out
        params that the signature does not have before it calls this method: docs/decisions/0008-pyfunc.md.
        """
        stated = {name: value for name, value in (params or {}).items() if value is not None}
        try:
            if len(model_input) == 0:
                row = "triple" if isinstance(self._model, LoadedModel) else "score"
                raise InputError(f"the input has no rows: it must have at least one {row}")
            answers = self._model.predict(model_input, **stated)  # type: ignore[arg-type]
        except KgcalError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame({name: _plain(answers[name]) for name in answers.columns}, index=answers.index)

    def get_raw_model(self) -> LoadedModel | ScoreCalibrator:
        """Return the model itself, which can answer more than `predict`."""
        return self._model


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column without NaN and NA: JSON has no NaN, and MLflow's server cannot write NA."""
    missing = column.isna().to_numpy()
    if not missing.any():
        return column.astype(bool) if column.dtype == "boolean" else column
    values = [None if gone else value for gone, value in zip(missing, column.astype("object"), strict=True)]
    return pd.Series(values, column.index, dtype="object")


def _load_pyfunc(path: str, model_config: Mapping[str, str] | None = None) -> PyfuncModel:
    """Load the model from the files of its LoggedModel.

    path          folder with calibrator.json or score_calibrator.json
    model_config  part -> URI of the embedding models and of the graph: `model`, `model_2`, ..., and `graph`. They are
                  read from there if the folder does not contain them

    Raises MlflowException if a file is missing or damaged.
    """
    folder, elsewhere = Path(path), dict(model_config or {})
    try:
        if (folder / SCORE_CALIBRATOR_FILE).is_file():
            return PyfuncModel(ScoreCalibrator.read(folder))
        missing = missing_parts(folder)
        if unknown := [part for part in missing if part not in elsewhere]:
            what = ", ".join(unknown)
            raise InputError(f"{folder} has no complete {what}: load a model that kgcal has logged")
        with tempfile.TemporaryDirectory() as place:
            fetched = {part: _fetch(elsewhere[part], Path(place) / part) for part in missing}
            return PyfuncModel(LoadedModel(read_calibrated(folder, fetched)))
    except KgcalError as error:
        raise MlflowException.invalid_parameter_value(str(error)) from error


def _fetch(uri: str, target: Path) -> Path:
    target.mkdir()
    try:
        return Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(target)))
    except Exception as error:  # each kind of storage raises its own types of errors
        raise InputError(
            f"the model needs {uri}, which cannot be read from {mlflow.get_tracking_uri()}: {first_line(error)}. Set "
            "MLFLOW_TRACKING_URI to the store of the model, or load a registered version, which needs no other files"
        ) from error
