"""Run the command line as a user does, as a separate process in a separate home.

Read with MLflow's own client what MLflow contains after the command.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import LoggedModel, Run

from kgcore.data.datasets.base import DatasetSpec
from kgcore.registries import DATASETS
from tasks.stages.table import STAGES
from tasks.tracking.record import RunTags
from tests.pipeline.forks import CHECKOUT, UNSET, Forks
from tests.pipeline.migrations import read_migrations_once

FORKS, FORKS_WITH_FEW_TREES = Forks(), Forks("tests.pipeline.with_few_trees")
read_migrations_once()
ALL_STAGES = [stage.name for stage in STAGES]
# the stages of a pipeline without candidates, without a race, and with too few labels for evidence
STAGE_NAMES = [name for name in ALL_STAGES if name not in ("match", "choose", "evidence")]


def small_family() -> DatasetSpec:
    """Return the family graph with 300 people; its size setting has no effect."""
    family = DATASETS.get("family")
    generate = family.generate
    assert generate is not None
    return replace(family, generate=lambda folder, size, seed: generate(folder, 300, seed))


class Kgcal:
    """The command `kgcal` with KGCAL_HOME in a folder of the test. It imports the packages from the folder `code`.

    forks  the client of the process that runs it
    """

    def __init__(self, folder: Path, code: Path = CHECKOUT, **environment: str) -> None:
        self.home, self.code, self.forks = folder / "home", code, FORKS
        kept = {name: value for name, value in os.environ.items() if name not in UNSET}
        self.environment = (
            kept
            | {"KGCAL_HOME": str(self.home), "PYTHONPATH": str(code), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
            | {"KGCAL_PREFECT": "on" if any(name.startswith("PREFECT") for name in environment) else "off"}
            | environment
        )

    def command(self, *arguments: str) -> list[str]:
        """Return the words that start the command as a separate process."""
        return [sys.executable, "-m", "kgcal", *arguments]

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, in a folder outside the checkout."""
        self.home.parent.mkdir(exist_ok=True, parents=True)
        # Prefect reads its settings while it is loaded
        if self.code == CHECKOUT and not any(name.startswith("PREFECT") for name in self.environment):
            return self.forks.run([*arguments], self.environment, self.home.parent, seconds=300)
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home.parent,
            check=False,
            timeout=300,
        )

    def python(self, *arguments: str) -> str:
        """Run Python, which must succeed, in the folder of the code. Return its output."""
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.code,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def results(self, *arguments: str) -> dict:
        """Run `kgcal run`, which must succeed, and return its JSON results."""
        target = self.home.parent / "out.json"
        done = self("run", *arguments, "--json", str(target))
        assert done.returncode == 0, done.stderr
        return json.loads(target.read_text())


def copy_of_the_code(folder: Path) -> Path:
    """Copy the packages, for a test that changes the code."""
    code = folder / "code"
    for package in ("kgcore", "tasks", "flows", "kgcal"):
        shutil.copytree(CHECKOUT / package, code / package, ignore=shutil.ignore_patterns("__pycache__"))
    return code


def client_of(kgcal: Kgcal) -> MlflowClient:
    """Return MLflow's own client for the store of the home."""
    return MlflowClient(tracking_uri=f"sqlite:///{kgcal.home}/mlflow.db")


def all_runs(kgcal: Kgcal) -> list[Run]:
    """Return every run in the store of the home."""
    client = client_of(kgcal)
    return list(client.search_runs([e.experiment_id for e in client.search_experiments()]))


def tags_of(run: Run) -> RunTags:
    """Return the typed tags of a run that MLflow's client has read."""
    return RunTags.from_mlflow(run.data.tags)


def runs_of(kgcal: Kgcal, stage: str) -> list[Run]:
    """Return the runs of a stage or job, oldest first."""
    found = [run for run in all_runs(kgcal) if tags_of(run).stage == stage]
    return sorted(found, key=lambda run: run.info.start_time)


def tags_of_run(kgcal: Kgcal, run_id: str) -> RunTags:
    """Return the typed tags of the run with that id."""
    return tags_of(client_of(kgcal).get_run(run_id))


def models_of(kgcal: Kgcal, run_id: str) -> list[LoggedModel]:
    """Return the LoggedModels that a run created, in their order."""
    client = client_of(kgcal)
    outputs = sorted(client.get_run(run_id).outputs.model_outputs, key=lambda output: output.step)
    return [client.get_logged_model(output.model_id) for output in outputs]


def model_folder(kgcal: Kgcal, model_id: str) -> Path:
    """Return the folder that holds the files of a LoggedModel."""
    [folder] = (kgcal.home / "artifacts").glob(f"**/models/{model_id}/artifacts")
    return folder
