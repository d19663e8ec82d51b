"""The MLflow UI on this project's store."""

import os
import shlex
import sys
from pathlib import Path

from kgcore.errors import InputError
from tasks.services import services, taken
from tasks.settings import ensure_home, tracking_uri
from tasks.store import open_store


def ui_command() -> str:
    """What a person types to open the MLflow UI on the results."""
    uri = tracking_uri()
    if uri.startswith(("http://", "https://")):
        return f"open {uri}"
    served = services().get("mlflow")
    if served is not None and served.alive():
        return f"open {served.url}"
    tool = Path(sys.executable).with_name("kgcal")
    shown = "kgcal" if not tool.is_file() else os.path.relpath(tool)
    home = f"KGCAL_HOME={shlex.quote(os.environ['KGCAL_HOME'])} " if os.environ.get("KGCAL_HOME") else ""
    return f"{home}{shown} ui"


def serve_ui(port: int) -> None:
    """Serve the UI on 127.0.0.1 in the place of this process. Raises InputError when the port is taken, or the store is
    a server that has a UI of its own."""
    uri = tracking_uri()
    if uri.startswith(("http://", "https://")):
        raise InputError(f"the store is a server with a UI of its own: open {uri}")
    served = services().get("mlflow")
    if served is not None and served.alive():
        raise InputError(f"the MLflow UI of `kgcal up` is there already: open {served.url}")
    if taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is taken: name another with --port")
    store = open_store()
    page = f"http://127.0.0.1:{port}/#/experiments/{store.experiment_id}/runs?workflowType=machine_learning"
    print(f"MLflow UI: {page}  (Ctrl-C ends it)", flush=True)
    command, environment = server_command(port)
    os.execve(sys.executable, command, os.environ | environment)  # noqa: S606


def server_command(port: int) -> tuple[list[str], dict[str, str]]:
    """The command of an MLflow server on this home's store, and what it wants in its environment."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", (ensure_home() / "artifacts").as_uri()]
    # the store's address may hold a password: no part of a command that everybody can list
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    return command, quiet | {"MLFLOW_BACKEND_STORE_URI": tracking_uri()}
