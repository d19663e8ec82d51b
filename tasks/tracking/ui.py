"""The MLflow UI on this project's store."""

import os
import shlex
import sys
from pathlib import Path

from kgcore.errors import InputError
from tasks.tracking.store import open_store
from tasks.workspace.network import port_is_taken
from tasks.workspace.services import MLFLOW, recorded_services
from tasks.workspace.settings import artifact_place, mlflow_server, tracking_uri


def ui_address() -> str | None:
    """Where an MLflow server shows this store: the one that the environment names, or that of `kgcal up`."""
    if named := mlflow_server():
        return named
    served = recorded_services().get(MLFLOW)
    return served.url if served is not None and served.alive() else None


def run_page(run_id: str) -> str | None:
    """The page of a run, where a server shows it."""
    address = ui_address()
    return f"{address}/#/experiments/{open_store().experiment_id}/runs/{run_id}" if address else None


def ui_command() -> str:
    """What a person types to open the MLflow UI on the results."""
    if address := ui_address():
        return f"open {address}"
    tool = Path(sys.executable).with_name("kgcal")
    shown = "kgcal" if not tool.is_file() else os.path.relpath(tool)
    home = f"KGCAL_HOME={shlex.quote(os.environ['KGCAL_HOME'])} " if os.environ.get("KGCAL_HOME") else ""
    return f"{home}{shown} ui"


def serve_ui(port: int) -> None:
    """Serve the UI on 127.0.0.1 in the place of this process. Raises InputError when the port is taken, or a server
    shows the store already."""
    if address := ui_address():
        raise InputError(f"a server shows this store already: open {address}")
    if port_is_taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is taken: name another with --port")
    store = open_store()
    page = f"http://127.0.0.1:{port}/#/experiments/{store.experiment_id}/runs?workflowType=machine_learning"
    print(f"MLflow UI: {page}  (Ctrl-C ends it)", flush=True)
    command, environment = server_command(port)
    os.execve(sys.executable, command, os.environ | environment)  # noqa: S606


def server_command(port: int) -> tuple[list[str], dict[str, str]]:
    """The command of an MLflow server on this home's store, and what it wants in its environment."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", artifact_place()]
    # the store's address may hold a password: no part of a command that everybody can list
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    return command, quiet | {"MLFLOW_BACKEND_STORE_URI": tracking_uri()}
