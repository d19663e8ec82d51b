"""The MLflow UI on this project's store."""

import os
import shlex
import socket
import sys
from pathlib import Path

from kgcore.errors import InputError
from tasks.settings import ensure_home, tracking_uri
from tasks.store import open_store


def ui_command() -> str:
    """What a person types to open the MLflow UI on the results."""
    uri = tracking_uri()
    if uri.startswith(("http://", "https://")):
        return f"open {uri}"
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
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise InputError(f"port {port} of 127.0.0.1 is taken: name another with --port") from None
    store = open_store()
    page = f"http://127.0.0.1:{port}/#/experiments/{store.experiment_id}/runs?workflowType=machine_learning"
    print(f"MLflow UI: {page}  (Ctrl-C ends it)", flush=True)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", uri, "--artifacts-destination", (ensure_home() / "artifacts").as_uri()]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    os.execve(sys.executable, command, environment)  # noqa: S606
