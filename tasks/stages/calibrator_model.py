"""The LoggedModel of a calibrator: its files, its tags, and the parameters by which users compare calibrators."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgcore.config import CorruptConfig, TrainConfig
from tasks.stages.evidence import other_models
from tasks.stages.running import IMPORTED, StageRun, config_of, loss_of
from tasks.tracking.artifacts import CALIBRATOR
from tasks.tracking.mlmodel import log_pyfunc
from tasks.tracking.record import shares_text

if TYPE_CHECKING:
    from kgcore.calibration.calibrated import Calibrated


def log_calibrator(run: StageRun, number: int, bound: "Calibrated", examples: Sequence[Sequence[str]]) -> None:
    """Log a calibrator as a LoggedModel, with its label and the id of its embedding model as tags.

    number    position among the models of the run, from 0
    examples  triples of names that show how to ask it

    The LoggedModel is an MLflow pyfunc.
    """
    params, [base] = calibrator_params(run, bound), run.model_ids("train")
    name = f"{params['dataset']}-{params['model']}-{bound.label}"
    tags = {"label": bound.label, "base_model": base, "base_rate_is": bound.rate.origin}
    model_id = run.log_model(CALIBRATOR, bound, name, params, number, **tags)
    log_pyfunc(run.store, model_id, run.record, examples)


def calibrator_params(run: StageRun, bound: "Calibrated") -> dict[str, object]:
    """Return the parameters by which users compare calibrators in the MLflow UI."""
    train, loss = run.config(TrainConfig), loss_of(run.upstream("train"))
    params = {
        "calibrator": bound.shown_name,
        "negatives": bound.negatives,
        "base_rate": bound.base_rate,
        "model": train.model,
        "loss": loss,
        "dataset": run.dataset.name,
        "k": train.k,
        "training_strategy": "" if loss == IMPORTED else shares_text(train.training_strategy),
    }
    params |= {} if bound.mixture is None else {"candidates": bound.mixture.source}
    if bound.combined and (named := other_models(run.inputs)):
        others = [run.store.known(run_id) for run_id in named]
        params["other_models"] = " ".join(config_of(TrainConfig, other).model for other in others)
    params |= {"hidden_share": str(bound.hidden)} if bound.hidden else {}
    return params | corruption_params(run) if bound.negatives == "synthetic" else params


def corruption_params(run: StageRun) -> dict[str, object]:
    """Return the parameters that describe how the corruptions for calibration were drawn."""
    drawn = run.config(CorruptConfig)
    return {
        "calibration_strategy": shares_text(drawn.calibration_strategy),
        "calibration_sides": drawn.calibration_sides,
        "calibration_filtered": drawn.calibration_filtered,
    }
