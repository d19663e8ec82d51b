"""A home with servers on PostgreSQL and a worker, as `kgcal up` starts them."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import requests

from tests.e2e.postgres import Postgres
from tests.pipeline.command import Kgcal
from tests.ports import free_port

SIZES = ["--size", "300", "--k", "8", "--epochs", "2"]


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until the condition is true; fail after that many seconds. A server that does not answer in time is busy."""

    def holds() -> bool:
        with suppress(requests.Timeout):
            return condition()
        return False

    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"the condition does not hold after {seconds} seconds"
        time.sleep(0.5)


class Local:
    """A home with its servers and clients of their APIs. Without a database, the servers use files in the home."""

    def __init__(self, folder: Path, database: Postgres | None) -> None:
        variables = {"KGCAL_PREFECT": "on"}
        if database:
            self.database = database
            variables["MLFLOW_TRACKING_URI"] = database.url("mlflow")
            variables["PREFECT_API_DATABASE_CONNECTION_URL"] = database.url("prefect", "postgresql+asyncpg")
        self.kgcal = Kgcal(folder, **variables)
        self.mlflow, self.prefect = free_port(), free_port()
        self.ports = ["--mlflow-port", str(self.mlflow), "--prefect-port", str(self.prefect)]

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start the servers and the worker by `kgcal up`; stop them at the end."""
        try:
            done = self.kgcal("up", *self.ports)
            assert done.returncode == 0, done.stderr
            yield self
        finally:
            self.kgcal("down")

    def state(self) -> dict[str, str]:
        """Return service -> state from the output of `kgcal status`."""
        done = self.kgcal("status")
        assert done.returncode == 0, done.stderr
        return {line.split()[0]: line[9:22].strip() for line in done.stdout.splitlines()}

    def process(self, name: str) -> psutil.Process:
        """Return the process of a service."""
        entries = json.loads((self.kgcal.home / "services" / "services.json").read_text())
        return psutil.Process(next(entry["pid"] for entry in entries if entry["name"] == name))

    def api(self, path: str, body: object = None) -> Any:
        answer = requests.post(f"http://127.0.0.1:{self.prefect}/api/{path}", json=body or {}, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def deployment(self, name: str) -> str:
        """Return the id of a deployment with the name FLOW/DEPLOYMENT."""
        url = f"http://127.0.0.1:{self.prefect}/api/deployments/name/{name}"
        return str(requests.get(url, timeout=20).json()["id"])

    def trigger(self, deployment: str, **parameters: object) -> str:
        """Create a run of a deployment and return its id."""
        made = self.api(f"deployments/{self.deployment(deployment)}/create_flow_run", {"parameters": parameters})
        assert isinstance(made, dict)
        return str(made["id"])

    def run_state(self, run: str) -> str:
        """Return the name of a flow run's state."""
        return str(
            requests.get(f"http://127.0.0.1:{self.prefect}/api/flow_runs/{run}", timeout=20).json()["state_name"]
        )

    def mlflow_states(self) -> list[str]:
        """Return the status of every MLflow run."""
        return [status for (status,) in self.database.ask("mlflow", "SELECT status FROM runs")]
