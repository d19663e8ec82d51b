"""The command line, MLproject and a Prefect deployment train the same model from the same given settings."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mlflow.projects._project_spec import load_project
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.flow_engine import run_flow
from typer.testing import CliRunner

from flows.cli.main import whole_app
from flows.pipeline import pipeline
from kgcore.config import TrainConfig
from kgcore.errors import InputError
from kgcore.registries import DATASETS
from tasks.jobs.manifest import resolve
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tests.pipeline.command import CHECKOUT, small_family
from tests.pipeline.flow_runs import prefect_server

app = whole_app()

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("home")]

SMALL = {"k": 8, "epochs": 2, "training_eta": 2}
# settings given with their default value, for which the preset has another value
DEFAULTS = {
    "loss": "self_adversarial",
    "learning_rate": 0.005,
    "lp_weight": 0.0,
    "calibration_strategy": "typed=0.5,similar=0.5",
}
STAGES = {"dataset": "prepare", "calibration_strategy": "corrupt"}


@pytest.fixture(scope="module", autouse=True)
def harness() -> Iterator[None]:
    with prefect_server():
        yield


@pytest.fixture(autouse=True)
def small_wn11() -> Iterator[None]:
    """Replace WN11, for which the presets have settings, by a small graph."""
    real = DATASETS.get("wn11")
    DATASETS.remove("wn11")
    DATASETS.add("wn11", replace(small_family(), name="wn11"))
    yield
    DATASETS.remove("wn11")
    DATASETS.add("wn11", real)


def command_line(given: dict[str, Any], preset: str) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    done = CliRunner().invoke(app, ["run", "--preset", preset, *options])
    assert done.exit_code == 0, done.output


def mlproject(given: dict[str, Any], preset: str) -> None:
    """Run the command that MLflow makes from an entry point and its parameters."""
    entry = load_project(CHECKOUT).get_entry_point("main")
    values = {name: str(value) for name, value in given.items()}
    words = shlex.split(entry.compute_command(values | {"preset": preset}, storage_dir=None))
    assert words[:3] == ["python", "-m", "kgcal"]
    done = CliRunner().invoke(app, words[3:])
    assert done.exit_code == 0, done.output


def deployment(given: dict[str, Any], preset: str) -> None:
    """Create a flow run as a form does, and run it as a worker does."""
    parameters: dict[str, Any] = {"preset": preset}
    for name, value in given.items():
        if name == "calibration_strategy":
            value = {key: float(share) for key, _, share in (part.partition("=") for part in value.split(","))}
        parameters.setdefault(STAGES.get(name, "train"), {})[name] = value
    made = pipeline.to_deployment("doors").apply()
    with get_client(sync_client=True) as client:
        flow_run = client.create_flow_run_from_deployment(made, parameters=parameters)
    run_flow(pipeline, flow_run=flow_run)


DOORS: list[Callable[[dict[str, Any], str], None]] = [command_line, mlproject, deployment]


def trained(door: Callable[[dict[str, Any], str], None], preset: str = "default", **given: Any) -> dict[str, Any]:
    """The ids of the runs of three stages of a pipeline on WN11 with DistMult, the settings and the parameters."""
    door({"dataset": "wn11", "model": "distmult", **SMALL, **given}, preset)
    store = open_store()
    newest = store.find(RunTags(stage="pipeline"))[0].run_id
    runs = {stage: resolve(stage, newest).run_id for stage in ("train", "corrupt", "calibrate")}
    configs = [store.get(run_id).tags.config or {} for run_id in runs.values()]
    settings = {name: value for config in configs for name, value in config.items()}
    return {"runs": runs, "settings": settings, "params": store.client.get_run(newest).data.params}


def newest_flow_run() -> FlowRun:
    with get_client(sync_client=True) as client:
        named = FlowFilter(name=FlowFilterName(any_=["pipeline"]))
        [run] = client.read_flow_runs(flow_filter=named, limit=1, sort=FlowRunSort.START_TIME_DESC)
        return run


def test_every_door_trains_what_is_given_even_if_it_is_the_default() -> None:
    runs = []
    for door in DOORS:
        found = trained(door, "best", **DEFAULTS)
        settings = found["settings"]
        assert (settings["loss"], settings["learning_rate"], settings["lp_weight"]) == ("self_adversarial", 0.005, 0.0)
        assert settings["calibration_strategy"] == {"typed": 0.5, "similar": 0.5}
        assert settings["lp_power"] == 3.0  # the value of the preset
        params = found["params"]
        assert (params["loss"], params["learning_rate"], params["lp_power"]) == ("self_adversarial", "0.005", "3.0")
        assert (params["preset"], params["preset.filled"]) == ("best", "lp_power,combine_rounds")
        assert newest_flow_run().name == "wn11 distmult self_adversarial"
        runs.append(found["runs"])
    assert runs[0] == runs[1] == runs[2]  # one cache key: all ways re-use the same runs


def test_every_door_lets_the_preset_decide_what_is_not_given() -> None:
    runs = []
    for door in DOORS:
        found = trained(door)
        assert found["settings"]["loss"] == "multiclass_nll"
        assert found["params"]["loss"] == "multiclass_nll"
        assert found["params"]["preset.filled"] == "loss,learning_rate,lp_weight,lp_power,calibration_strategy"
        assert newest_flow_run().name == "wn11 distmult multiclass_nll"
        runs.append(found["runs"])
    assert runs[0] == runs[1] == runs[2]


def test_every_door_can_do_without_a_preset() -> None:
    runs = []
    for door in DOORS:
        found = trained(door, "none")
        assert (found["settings"]["loss"], found["settings"]["lp_weight"]) == ("self_adversarial", 0.0)
        assert (found["params"]["preset"], found["params"]["preset.filled"]) == ("none", "none")
        runs.append(found["runs"])
    assert runs[0] == runs[1] == runs[2]


def test_settings_that_cannot_work_end_in_a_named_flow_run() -> None:
    with pytest.raises(InputError, match="the preset best has no settings for rotate with self_adversarial"):
        pipeline(train=TrainConfig(model="rotate"), preset="best")
    run = newest_flow_run()
    assert (run.name, run.state_name) == ("pipeline", "Failed")


def test_the_flow_run_shows_what_was_typed() -> None:
    trained(command_line, loss="self_adversarial")
    parameters = newest_flow_run().parameters
    assert parameters["preset"] == "default"
    assert parameters["train"] == {"model": "distmult", "loss": "self_adversarial", **SMALL}
    assert (parameters["prepare"], parameters["calibrate"]) == ({"dataset": "wn11"}, {})
