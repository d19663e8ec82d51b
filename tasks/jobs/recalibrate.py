"""Recalibration: what it takes over from an earlier run, and the MLflow run that its stages are nested under.

The stages that it alone has are `add_labels` of prepare.py and `adopt_model` of train.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kgcore.config import CalibrateConfig, ClassifyConfig, Config, CorruptConfig, EvaluateConfig, PipelineConfigs
from kgcore.datasets.labels import read_labels
from kgcore.errors import InputError
from tasks.jobs.pipeline import all_settings, open_pipeline, resolve
from tasks.stages.base import StageRef, checked, config_of, inputs, load_config
from tasks.tracking.store import open_store
from tasks.workspace.resources import find_device

KINDS: dict[str, type[Config]] = {  # the stages after the model that have settings
    "corrupt": CorruptConfig,
    "calibrate": CalibrateConfig,
    "classify": ClassifyConfig,
    "evaluate": EvaluateConfig,
}


def earlier(text: str, base_rate: float | None) -> tuple[StageRef, PipelineConfigs]:
    """The model that a person names (see `resolve`), and the settings of the newest evaluation of what was named, or
    else of that model, with another base rate where one is given; the defaults where it was never evaluated.

    Raises InputError as `resolve` does, and for a base rate that cannot be.
    """
    store, trained = open_store(), resolve("train", text)
    wanted = [{"input.train": trained.run_id}]
    with suppress(InputError):  # a run that no calibrators came before
        wanted.insert(0, {"input.calibrate": resolve("calibrate", text).run_id})
    configs: dict[str, Any] = {}
    for tags in wanted:
        if found := store.search(stage="evaluate", **tags):  # type: ignore[arg-type]
            came_from = inputs(found[0]) | {"evaluate": found[0].info.run_id}
            configs = {stage: config_of(kind, StageRef(stage, came_from[stage])) for stage, kind in KINDS.items()}
            break
    settings = PipelineConfigs(**configs)
    if base_rate is not None:
        settings = replace(settings, calibrate=replace(settings.calibrate, base_rate=base_rate))
    return trained, settings


@contextmanager
def recalibration_run(
    model: StageRef,
    configs: PipelineConfigs,
    labels: Path | None,
    instead: bool,
    device: str,
    flow_run: str | None = None,
) -> Iterator[str]:
    """The MLflow run of a pipeline that takes its model as it is, with every setting; yields its id.

    Raises InputError for labels or a device that cannot be used, before any run is opened.
    """
    if instead and labels is None:
        raise InputError("instead of the validation split what is to stand: name a file with --labels")
    if labels is not None:
        read_labels(labels)
    find_device(device)
    run = checked(open_store(), model)
    settings = load_config(StageRef("prepare", inputs(run)["prepare"])) | load_config(model)
    own = {name: config for name, config in vars(configs).items() if name not in ("prepare", "train")}
    params = settings | all_settings(own) | ({"labels": labels.name} if labels else {})
    title = f"recalibrate {settings['dataset']} {settings['model']} {settings['loss']}"
    with open_pipeline(title, {"model": model.run_id}, params, flow_run) as run_id:
        yield run_id
