"""`mlflow run`: every entry point is a command with those options, and the run it opens is the one that is used."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import yaml
from mlflow import MlflowClient

from flows.cli import app
from tests.pipeline.conftest import CHECKOUT, Kgcal

PROJECT = yaml.safe_load((CHECKOUT / "MLproject").read_text())


def test_entry_points_are_commands_with_the_same_defaults() -> None:
    commands = {command.name: command.callback for command in app.registered_commands}
    assert set(PROJECT["entry_points"]) - {"main"} < set(commands)
    for entry, declared in PROJECT["entry_points"].items():
        signature = inspect.signature(commands["run" if entry == "main" else entry])
        for name, parameter in declared["parameters"].items():
            assert signature.parameters[name].default == parameter["default"], (entry, name)
            assert f"--{name.replace('_', '-')} {{{name}}}" in declared["command"]


def test_mlflow_run_uses_the_run_it_opened(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    kgcal.results("--size", "300", "--k", "8", "--epochs", "2")
    uri = f"sqlite:///{kgcal.home}/mlflow.db"
    environment = kgcal.environment | {"MLFLOW_TRACKING_URI": uri}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        f"{sys.executable} -m mlflow run {CHECKOUT} -e calibrate --env-manager local --experiment-name kgcal "
        "-P base_rate=.25".split(),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    client = MlflowClient(tracking_uri=uri)
    [experiment] = [e.experiment_id for e in client.search_experiments() if e.name == "kgcal"]
    runs = client.search_runs([experiment], filter_string="params.base_rate = '.25'")
    assert [run.data.tags.get("kgcal.stage") for run in runs] == ["calibrate"]
    assert runs[0].info.status == "FINISHED"
    assert runs[0].data.tags["mlflow.project.entryPoint"] == "calibrate"
    assert json.loads(runs[0].data.tags["kgcal.config"])["base_rate"] == 0.25
