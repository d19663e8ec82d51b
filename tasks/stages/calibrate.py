"""calibrate: from scores to probabilities."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kgcore import storage
from kgcore.calibration.audit import score_audit
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.fit import calibration_samples, fit_calibrators
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import CALIBRATORS
from tasks.stages.base import Context, StageRef, StageRun, checked, config_of, inputs, run_stage, stage_task
from tasks.tracking.names import shares_text, short_label
from tasks.tracking.store import open_store

FILE = "calibrator.json"


@stage_task
def calibrate_scores(scores: StageRef, config: CalibrateConfig, context: Context = Context()) -> StageRef:
    """Fit every calibrator by ground truth and synthetic negatives. LoggedModels: one calibrator.json each.
    Artifact: audit.json."""
    code = ("kgcore.calibration.fit", "kgcore.calibration.audit", *map(CALIBRATORS.module, config.calibrators))

    def body(run: StageRun) -> None:
        table = run.load("score", "scores.parquet", storage.read_scores)
        drawn = config_of(CorruptConfig, StageRef("corrupt", run.inputs["corrupt"]))
        for number, bound in enumerate(fit_calibrators(table, config, drawn)):
            log_calibrator(run, number, bound)
        audits = {name: score_audit(sample).to_json() for name, sample in calibration_samples(table, config).items()}
        storage.write_json(run.folder / "audit.json", audits)
        for name, figures in audits.items():
            run.log_metrics({short_label(f"{name}.{figure}"): value for figure, value in figures.items()})

    return run_stage("calibrate", config, (scores,), code, body, context)


def upstream_of(calibrators: StageRef) -> tuple[StageRef, StageRef]:
    """The corruptions and the scores that calibrators were fitted on."""
    came_from = inputs(checked(open_store(), calibrators))
    return StageRef("corrupt", came_from["corrupt"]), StageRef("score", came_from["score"])


@stage_task
def move_calibrators(calibrators: StageRef, base_rate: float, context: Context = Context()) -> StageRef:
    """The calibrators of a run, told about another base rate and not fitted anew, as a run of the stage."""
    store = open_store()
    before = checked(store, calibrators)
    config = replace(config_of(CalibrateConfig, calibrators), base_rate=base_rate)
    _, scores = upstream_of(calibrators)

    def body(run: StageRun) -> None:
        for number, model_id in enumerate(store.model_ids(calibrators.run_id)):
            log_calibrator(run, number, store.load_model(model_id, read_calibrator).at(base_rate))
        audits = store.load(calibrators.run_id, "audit.json", storage.read_json)
        storage.write_json(run.folder / "audit.json", audits)
        run.store.log_tags(run.run_id, {"kgcal.moved": calibrators.run_id})

    identity = f"moved {before.data.tags['kgcal.key']}"
    return run_stage("calibrate", config, (scores,), ("kgcore.calibration.bound",), body, context, identity)


def log_calibrator(run: StageRun, number: int, bound: BoundCalibrator) -> None:
    """A calibrator as a LoggedModel of its own over the base model it belongs to."""
    params, [base] = calibrator_params(run, bound), run.model_ids("train")
    name = f"{params['dataset']}-{params['model']}-{bound.label.replace('.', '-')}"
    write = partial(_write, data=bound.to_json())
    run.log_model(number, name, write, params, {"label": bound.label, "base_model": base})


def calibrator_params(run: StageRun, bound: BoundCalibrator) -> dict[str, Any]:
    """What calibrators are compared by."""
    settings = run.config("train")
    params = {
        "calibrator": bound.name,
        "negatives": bound.negatives,
        "base_rate": bound.base_rate,
        "model": settings["model"],
        "loss": settings["loss"],
        "dataset": run.dataset[0],
        "k": settings["k"],
        "training_strategy": shares_text(settings["training_strategy"]),
    }
    return params | corruption_params(run) if bound.negatives == "synthetic" else params


def corruption_params(run: StageRun) -> dict[str, Any]:
    """What synthetic negatives were drawn from, as it is compared by."""
    drawn = run.config("corrupt")
    return {
        "calibration_strategy": shares_text(drawn["calibration_strategy"]),
        "calibration_sides": drawn["calibration_sides"],
        "calibration_filtered": drawn["calibration_filtered"],
    }


def _write(folder: Path, data: dict[str, object]) -> None:
    storage.write_json(folder / FILE, data)


def read_calibrator(folder: Path) -> BoundCalibrator:
    """The calibrator in a LoggedModel's folder."""
    return BoundCalibrator.from_json(storage.read_json(folder / FILE))
