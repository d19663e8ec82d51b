"""The LoggedModels of calibrators of scores: how they are logged, and how they are found."""

from typing import TYPE_CHECKING

import pandas as pd

from kgcore.external.answers import ANSWERS
from kgcore.external.calibrator import ScoreCalibrator
from tasks.tracking.artifacts import SCORE_CALIBRATOR
from tasks.tracking.mlmodel import write_pyfunc
from tasks.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

LOADER = "tasks.tracking.pyfunc_scores"


def log_score_calibrator(
    store: Store, run_id: str, number: int, calibrator: ScoreCalibrator, example: pd.DataFrame
) -> str:
    """Log a calibrator of scores as a LoggedModel, which is an MLflow pyfunc. Return its id.

    number   position among the models of the run, from 0
    example  rows that show how to ask it: columns score and, for a calibrator by relation, relation
    """
    from mlflow.models import Model

    bound = calibrator.bound
    params = {
        "calibrator": bound.name,
        "negatives": bound.negatives,
        "base_rate": bound.base_rate,
        "scorer": calibrator.scorer,
        "scale": calibrator.scale,
    }
    tags = {"label": bound.label, "base_rate_is": bound.base_rate_is, "scorer": calibrator.scorer}
    model_id = store.log_model(
        run_id,
        number,
        f"{calibrator.scorer}-{bound.label}",
        params,
        tags,
        lambda folder: SCORE_CALIBRATOR.write(folder, calibrator),
    )
    record, signature = Model(model_id=model_id, run_id=run_id), _signature(calibrator)
    store.add_model_files(model_id, lambda folder: write_pyfunc(folder, LOADER, signature, example, record, {}))
    return model_id


def _signature(calibrator: ScoreCalibrator) -> "ModelSignature":
    """Return the columns that the pyfunc reads and writes, and its parameter with its default."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

    inputs: list[ColSpec | TensorSpec] = [
        ColSpec("double", "score"),
        ColSpec("string", "relation", required=calibrator.bound.calibrator.by_predicate),
        ColSpec("string", "scorer", required=False),
    ]
    return ModelSignature(
        inputs=Schema(inputs),
        outputs=Schema([ColSpec("double", name) for name in ANSWERS]),
        params=ParamSchema([ParamSpec("base_rate", "double", calibrator.bound.base_rate)]),
    )
