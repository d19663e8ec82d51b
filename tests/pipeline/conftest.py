"""The command line as a user has it: a process of its own, in a home of its own."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from kgcore.datasets.base import DatasetSpec
from kgcore.registries import DATASETS
from tests.pipeline.forks import Forks

FORKS = Forks()
CHECKOUT = Path(__file__).resolve().parents[2]
UNSET = (
    "MLFLOW_TRACKING_URI",
    "MLFLOW_RUN_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_S3_ENDPOINT_URL",
    "PREFECT_API_URL",
    "PREFECT_API_DATABASE_CONNECTION_URL",
    "PREFECT_SERVER_DATABASE_CONNECTION_URL",
    "KGCAL_ARTIFACTS",
    "KGCAL_MIRROR",
    "KGCAL_HOME",
)


def small_family() -> DatasetSpec:
    """The family graph with 300 people, whatever size is asked for."""
    family = DATASETS.get("family")
    generate = family.generate
    assert generate is not None
    return replace(family, generate=lambda folder, size, seed: generate(folder, 300, seed))


class Kgcal:
    """`kgcal ARGUMENTS` with KGCAL_HOME in a folder of the test's; `code` is where the packages are imported from."""

    def __init__(self, folder: Path, code: Path = CHECKOUT, **environment: str) -> None:
        self.home, self.code = folder / "home", code
        kept = {name: value for name, value in os.environ.items() if name not in UNSET}
        self.environment = (
            kept
            | {"KGCAL_HOME": str(self.home), "PYTHONPATH": str(code), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
            | environment
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "flows.cli", *arguments]

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run to the end, from a folder that is not the checkout's."""
        self.home.parent.mkdir(exist_ok=True, parents=True)
        # Prefect reads its settings while it is loaded
        if self.code == CHECKOUT and not any(name.startswith("PREFECT") for name in self.environment):
            return FORKS.run([*arguments], self.environment, self.home.parent, seconds=300)
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home.parent,
            check=False,
            timeout=300,
        )

    def results(self, *arguments: str) -> dict:
        """`kgcal run` with its JSON results; it must end well."""
        target = self.home.parent / "out.json"
        done = self("run", *arguments, "--json", str(target))
        assert done.returncode == 0, done.stderr
        return json.loads(target.read_text())


def client_of(kgcal: Kgcal) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{kgcal.home}/mlflow.db")


def all_runs(kgcal: Kgcal) -> list[Run]:
    client = client_of(kgcal)
    return list(client.search_runs([e.experiment_id for e in client.search_experiments()]))
