"""The record of the services that run in this home: those of `kgcal up`, and the recorder. flows/local starts them.

A service is identified by its process id and by a token in its environment. The process id alone is not enough, because
the operating system may give it to another program later.
"""

import json
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import requests

from kgcore.errors import InputError, first_line
from tasks.workspace.settings import home, mlflow_server

MLFLOW, PREFECT, WORKER, RECORDER = "mlflow", "prefect", "worker", "recorder"
TOKEN_VARIABLE = "KGCAL_SERVICE"  # noqa: S105 (the name of a variable)


@dataclass(frozen=True)
class Service:
    """A process that keeps running after the command that started it.

    name    mlflow, prefect, worker or recorder
    pid     its process id
    token   the value of TOKEN_VARIABLE in its environment
    url     the address of its web page; '' for a worker
    health  an address that returns status 200 when the service is ready; '' for a worker
    setup   digest of its settings at the start: `kgcal up` restarts a service whose settings have changed
    """

    name: str
    pid: int
    token: str
    url: str = ""
    health: str = ""
    setup: str = ""

    def alive(self) -> bool:
        """Return whether the process with this id and token still runs."""
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(TOKEN_VARIABLE) == self.token
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def ready(self) -> bool:
        """Return whether the service answers; for a worker, whether it is alive."""
        return self.alive() and (not self.health or answers(self.health))


def recorded_services() -> dict[str, Service]:
    """Return name -> service for all services, alive or dead, that were started from this home and not stopped.

    Raises InputError if the record cannot be read.
    """
    try:
        entries = [Service(**entry) for entry in json.loads(_record().read_text(encoding="utf-8"))]
    except (FileNotFoundError, NotADirectoryError):  # no service was started; `ensure_home` reports an invalid home
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{_record()} cannot be read: {first_line(error)}") from error
    return {entry.name: entry for entry in entries}


def write_record(services: Iterable[Service]) -> None:
    """Replace the record in one step, so that no process can read an incomplete record."""
    partial = _record().with_suffix(".partial")
    partial.write_text(json.dumps([asdict(service) for service in services], indent=1) + "\n", encoding="utf-8")
    partial.replace(_record())


def services_folder() -> Path:
    """Return the folder of the record and of the services' logs."""
    return home() / "services"


def log_file(name: str) -> Path:
    """Return the file with the output of the service `name`."""
    return services_folder() / f"{name}.log"


def _record() -> Path:
    return services_folder() / "services.json"


def answers(url: str) -> bool:
    """Return whether a GET request to `url` is answered with status 200 within 2 seconds."""
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def port_is_taken(port: int) -> bool:
    """Return whether a program listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def ui_address() -> str | None:
    """Return the address of an MLflow server that shows this store; None if there is none.

    It is the server that the environment names, or else the server of `kgcal up`.
    """
    if named := mlflow_server():
        return named
    served = recorded_services().get(MLFLOW)
    return served.url if served is not None and served.alive() else None


def ui_command() -> str:
    """Return a command that the user can type to open the MLflow UI."""
    if address := ui_address():
        return f"open {address}"
    tool = Path(sys.executable).with_name("kgcal")
    found = shutil.which("kgcal")  # the `kgcal` that the shell would run, perhaps of another installation
    is_other = tool.is_file() and (found is None or not tool.samefile(found))
    shown = os.path.relpath(tool) if is_other else "kgcal"
    home = f"KGCAL_HOME={shlex.quote(os.environ['KGCAL_HOME'])} " if os.environ.get("KGCAL_HOME") else ""
    return f"{home}{shown} ui"
