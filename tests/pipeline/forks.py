"""The client of the process that forks: see fork_server.py."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

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
ADDRESS = "FORKS_ADDRESS"  # the environment variable with the path of the socket


class Forks:
    """A client of the process that forks."""

    def __init__(self, *also: str) -> None:
        """Store `also`, further modules to import before the first command."""
        self._also = also
        self._lines: TextIO | None = None

    def run(
        self,
        arguments: list[str],
        environment: Mapping[str, str],
        folder: Path,
        seconds: float,
        number: int = signal.SIGALRM,
    ) -> "subprocess.CompletedProcess[str]":
        """Run `kgcal ARGUMENTS` in a folder.

        After `seconds`, send the process the signal `number`; without a number, raise TimeoutExpired.
        """
        with TemporaryDirectory() as outputs:
            out, err = Path(outputs, "out"), Path(outputs, "err")
            status = self._ask(
                ["kgcal", *arguments], dict(environment), str(folder), str(out), str(err), seconds, number
            )
            if status == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(arguments, seconds, out.read_text(), err.read_text())
            return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())

    def _ask(self, *order: object) -> int:
        if self._lines is None:
            start()
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(os.environ[ADDRESS])
                self._lines = connection.makefile("rw")
            self._exchange(self._also)
        if not (status := self._exchange(order)):
            raise RuntimeError("the process that forks has ended: see its standard error")
        return int(status)

    def _exchange(self, line: Sequence[object]) -> str:
        """Write a line of JSON, and return the line that answers it."""
        assert self._lines is not None
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        return self._lines.readline()


def start() -> None:
    """Start the process that forks, for this process and the processes that it starts, unless it runs already."""
    if ADDRESS in os.environ:
        return
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    os.environ[ADDRESS] = str(Path(folder.name, "socket"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[ADDRESS])
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.fork_server", str(listener.fileno())],
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            cwd=CHECKOUT,
            env={name: value for name, value in os.environ.items() if name not in UNSET}
            | {"PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"},
        )
    atexit.register(process.kill)
