"""`mlflow run`: every entry point is a command with its options, and the run it opens is the one that is used."""

import json
import subprocess
import sys
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow.entities import Run
from packaging.requirements import Requirement
from typer.testing import CliRunner

from flows.cli.commands import app
from flows.cli.project import project_text, translated
from flows.stages import STAGE_FLOWS
from kgcore import config
from kgcore.errors import InputError
from tests.pipeline.conftest import CHECKOUT, Kgcal, all_runs, client_of

PROJECT: dict[str, Any] = yaml.safe_load((CHECKOUT / "MLproject").read_text())
DEFAULTS = {  # MLflow passes text: tables and lists have commas, flags are true or false
    item.name: item.default if item.default is not MISSING else item.default_factory()
    for known in vars(config).values()
    if isinstance(known, type) and issubclass(known, config.Config)
    for item in fields(known)
}


def text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}={number:g}" for name, number in value.items())
    return ",".join(value) if isinstance(value, tuple) else value


def test_the_file_is_what_the_options_make_it() -> None:
    assert (CHECKOUT / "MLproject").read_text() == project_text(app), "`make mlproject` makes it anew"


def test_every_setting_is_declared_with_its_type_and_default() -> None:
    points = {name: point["parameters"] for name, point in PROJECT["entry_points"].items()}
    after = ["recalibrate", "promote", "watch", "tune", "ensemble"]
    assert list(points) == ["main", *(function.name for function in STAGE_FLOWS), *after]
    upstream = {"data", "corruptions", "scores", "predictions", "ranks", "evaluation"}
    # names of settings elsewhere
    own = {
        "corrupt": {"model"},
        "score": {"model"},
        "rank": {"model"},
        "classify": {"calibrators"},
        "recalibrate": {"model"},
    }
    plain = {"force": False, "device": "auto", "labels": "", "instead": False, "refit": False, "preset": "default"}
    unset = {
        "promote": {"dataset", "base_rate"},
        "watch": {"dataset"},
        "recalibrate": {"base_rate"},
        "ensemble": {"runs"},
    }
    for entry, parameters in points.items():
        for name, declared in parameters.items():
            expected = "" if name in unset.get(entry, set()) else text(DEFAULTS.get(name, plain.get(name)))
            expected = "latest" if name in upstream | own.get(entry, set()) else expected
            assert declared["default"] == expected, (entry, name)
            assert declared["type"] == {str: "string", int: "int", float: "float"}[type(expected)], (entry, name)
    upkeep, pooled, own_of_tune = (
        {item.name for kind in kinds for item in fields(kind)}
        for kinds in ((config.GateConfig, config.WatchConfig), (config.EnsembleConfig,), (config.TuneConfig,))
    )
    of_stages, run = set(DEFAULTS) - upkeep - pooled - own_of_tune, set(points["main"])
    assert run == of_stages | {"force", "device", "preset"}
    stages = [set(points[function.name]) for function in STAGE_FLOWS]
    assert set().union(*stages) == of_stages | {"force", "device"} | upstream
    later = {item.name for kind in (config.ClassifyConfig, config.EvaluateConfig) for item in fields(kind)}
    assert set(points["tune"]) == run - later - {"calibrators", "weighted"} | own_of_tune
    assert set(points["promote"]) | set(points["watch"]) == upkeep | {"dataset", "base_rate", "labels"}
    assert set(points["ensemble"]) == pooled | {"runs", "force"}


@pytest.mark.parametrize(
    ("entry", "values", "arguments"),
    [
        (
            "main",
            ["--k", "100", "--force", "false", "--training-strategy", "", "--calibration-filtered", "true"],
            ["run"],
        ),
        ("main", ["--base_rate", ".2", "--force", "True"], ["run", "--base-rate=.2", "--force"]),
        ("train", ["--sides_apart", "true"], ["train", "--sides-apart"]),
        ("corrupt", ["--calibration-filtered", "false"], ["corrupt", "--no-calibration-filtered"]),
        ("train", ["--training-strategy", "typed=0.5,uniform=0.5"], ["train", "--negatives=typed=0.5,uniform=0.5"]),
        ("calibrate", ["--scores", "--force"], ["calibrate", "--scores=--force"]),
        ("calibrate", ["--scores", ""], ["calibrate", "--scores="]),
        ("ensemble", ["--runs", "abc,latest", "--pools", "linear"], ["ensemble", "abc", "latest", "--pools=linear"]),
        ("ensemble", ["--runs", ""], ["ensemble"]),
    ],
)
def test_a_value_is_its_option_in_one_word(entry: str, values: list[str], arguments: list[str]) -> None:
    assert translated(app, entry, values) == arguments


@pytest.mark.parametrize(
    ("entry", "values", "message"),
    [
        ("calibrate", ["--base_rat", "0.2"], "calibrate has no parameter 'base_rat': it has base_rate"),
        ("calibrate", ["--base-rate", "0.2"], "has no parameter 'base-rate': it has base_rate"),
        ("report", ["--zzz", "1"], "report has no parameter 'zzz': it has evaluation, force"),
        ("main", ["--json_path", "out.json"], "main has no parameter 'json_path'"),
        ("train", ["--sides_apart", "yes"], "sides_apart is 'yes': it must be true or false"),
        ("train", ["--k"], "takes --name value for each parameter: '--k' is alone"),
        ("run", [], "there is no entry point 'run': known are main, prepare"),
    ],
)
def test_what_nobody_declared_is_refused(entry: str, values: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        translated(app, entry, values)
    done = CliRunner().invoke(app, ["project", entry, *values])
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_wrong_number_is_told_by_the_command() -> None:
    done = CliRunner().invoke(app, ["project", "train", "--k", "many"])
    assert done.exit_code == 2
    assert "Invalid value for '--k'" in done.stderr


class Mlflow:
    """`mlflow run CHECKOUT` from another folder, on the store of one small pipeline that it has run itself."""

    def __init__(self, folder: Path) -> None:
        self.kgcal = Kgcal(folder)
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self.uri = f"sqlite:///{self.kgcal.home}/mlflow.db"
        self.kgcal.home.mkdir()
        small = {"size": 300, "k": 8, "epochs": 2, "negatives": "typed=0.5,uniform=0.5", "calibrators": "platt"}
        self.first = self(experiment="other", **small)

    def __call__(
        self, entry: str = "main", experiment: str = "kgcal", uri: str | None = "", **values: Any
    ) -> "subprocess.CompletedProcess[str]":
        environment = dict(self.kgcal.environment)
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        if uri is not None:
            environment["MLFLOW_TRACKING_URI"] = uri or self.uri
        command = [sys.executable, "-m", "mlflow", "run", str(CHECKOUT), "-e", entry, "--env-manager", "local"]
        command += ["--experiment-name", experiment]
        command += [word for name, value in values.items() for word in ("-P", f"{name}={value}")]
        return subprocess.run(
            command, env=environment, cwd=self.elsewhere, capture_output=True, text=True, check=False, timeout=300
        )

    def newest(self, entry: str) -> Run:
        """The newest run that `mlflow run` opened for an entry point."""
        runs = [run for run in all_runs(self.kgcal) if run.data.tags.get("mlflow.project.entryPoint") == entry]
        return max(runs, key=lambda run: run.info.start_time)


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Mlflow:
    return Mlflow(tmp_path_factory.mktemp("mlproject"))


def test_the_run_that_main_opens_is_the_pipelines(mlflow: Mlflow) -> None:
    assert mlflow.first.returncode == 0, mlflow.first.stderr
    opened = mlflow.newest("main")
    assert (opened.info.status, opened.data.tags["kgcal.stage"]) == ("FINISHED", "pipeline")
    assert client_of(mlflow.kgcal).get_experiment(opened.info.experiment_id).name == "other"
    nested = [run for run in all_runs(mlflow.kgcal) if run.data.tags.get("mlflow.parentRunId") == opened.info.run_id]
    assert {run.data.tags["kgcal.stage"] for run in nested} == {function.name for function in STAGE_FLOWS}
    assert {run.info.experiment_id for run in nested} == {opened.info.experiment_id}
    [train] = [json.loads(r.data.tags["kgcal.config"]) for r in nested if r.data.tags["kgcal.stage"] == "train"]
    assert (train["k"], train["negatives"]) == (8, {"typed": 0.5, "uniform": 0.5})


def test_a_stage_runs_from_another_folder_in_its_run_and_is_reused_in_the_next(mlflow: Mlflow) -> None:
    done = mlflow("calibrate", base_rate=".25")
    assert done.returncode == 0, done.stderr
    opened = mlflow.newest("calibrate")
    assert (opened.info.status, opened.data.tags["kgcal.stage"]) == ("FINISHED", "calibrate")
    assert json.loads(opened.data.tags["kgcal.config"])["base_rate"] == 0.25
    assert opened.info.run_id in done.stdout

    scores = opened.data.tags["kgcal.input.score"]
    again = mlflow("calibrate", experiment="third", base_rate="0.25", scores=scores)
    assert again.returncode == 0, again.stderr
    second = mlflow.newest("calibrate")
    assert second.info.run_id != opened.info.run_id
    assert (second.info.status, "kgcal.stage" in second.data.tags) == ("FINISHED", False)
    assert second.data.tags["mlflow.note.content"] == f"Nothing to do: re-used run `{opened.info.run_id}`."


def test_what_cannot_be_ends_the_opened_run_as_failed(mlflow: Mlflow) -> None:
    done = mlflow("classify", calibrators="--force", ta="0.3")
    assert done.returncode != 0
    assert "kgcal: the entry point classify has no parameter 'ta': it has tau" in done.stderr
    assert mlflow.newest("classify").info.status == "FAILED"


def test_without_a_tracking_uri_the_sentence_says_how_to_set_it(mlflow: Mlflow) -> None:
    done = mlflow("rank", uri=None)
    assert done.returncode != 0
    [said] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert f"`export MLFLOW_TRACKING_URI={mlflow.uri}` before `mlflow run`" in said
    assert "Traceback" not in done.stderr


def test_a_tracking_uri_that_depends_on_the_folder_is_refused(mlflow: Mlflow) -> None:
    environment = {"MLFLOW_TRACKING_URI": "sqlite:///here.db", "MLFLOW_RUN_ID": "0" * 32}
    done = Kgcal(mlflow.elsewhere, **environment)("report")
    assert done.returncode == 2
    assert "MLFLOW_TRACKING_URI=sqlite:///here.db is another file in every folder" in done.stderr
    assert not (mlflow.elsewhere / "here.db").exists()


def test_the_python_environment_can_be_made() -> None:
    made = yaml.safe_load((CHECKOUT / PROJECT["python_env"]).read_text())
    assert made["dependencies"] == ["-c constraints.txt", "."]  # MLflow installs from within the project
    pins = {}
    for line in (CHECKOUT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            [exact] = pin.specifier
            assert exact.operator == "==", line
            pins[pin.name.lower().replace("_", "-")] = exact.version
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert Requirement(f"python{project['requires-python']}").specifier.contains(made["python"])
    for line in project["dependencies"]:
        asked = Requirement(line)
        assert asked.specifier.contains(pins[asked.name.lower()]), line
