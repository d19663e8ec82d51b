"""The MLflow UI of this store: links to its pages, and the server that shows it."""

import json
import os
import sys
from urllib.parse import quote

from kgcore.errors import InputError
from kgcore.measure.report.results import headline
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.services import port_is_taken, ui_address
from tasks.workspace.settings import artifact_place, tracking_uri

SETTINGS = ("model", "loss", "training_strategy", "negatives", "calibration_strategy", "calibrator", "base_rate")


def run_page(run_id: str) -> str | None:
    """Return the address of a run's page; None if no server shows the store."""
    address = ui_address()
    return f"{address}/#/experiments/{open_store().info(run_id).experiment_id}/runs/{run_id}" if address else None


def serve_ui(port: int) -> None:
    """Replace this process with an MLflow server on that port of 127.0.0.1.

    Raises InputError if the port is taken, or if a server already shows the store.
    """
    if address := ui_address():
        raise InputError(f"a server already shows this store: open {address}")
    if port_is_taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is in use: choose another port with --port")
    open_store()  # the server shows a store that exists
    print(f"MLflow UI: http://127.0.0.1:{port}/#/experiments  (Ctrl-C ends it)", flush=True)
    command, environment = server_command(port)
    os.execve(sys.executable, command, os.environ | environment)  # noqa: S606


def server_command(port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of an MLflow server for this home's store, and the environment variables that it needs."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", artifact_place()]
    # a variable has the store's address, which may hold a password: every user of the machine can read command lines
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    return command, quiet | {"MLFLOW_BACKEND_STORE_URI": tracking_uri()}


def best_runs_page(dataset: str, rows: str) -> str | None:
    """Save a view of the measurements on the same rows: lowest Brier score first, with settings and main metrics.

    rows  fingerprint of the measured rows of the data set: see `StageRun.log_measurement`; '': all measurements

    The view is saved in a tag of the experiment that has the newest of them, and shows those in this experiment.
    Return its address; None if no server shows the store.
    """
    if not (address := ui_address()):
        return None
    store, view, measured = open_store(), f"kgcal-{dataset}-{rows}", RunTags(stage="measurement", test=rows or None)
    newest = store.find(measured)
    experiment = store.info(newest[0].run_id).experiment_id if newest else store.experiment_id
    # the format of a view that a user shares in MLflow's UI; MLflow 3.17 also reads it as plain JSON
    state = {
        "searchFilter": measured.where(None),
        "orderByKey": "metrics.`brier`",
        "orderByAsc": True,
        "selectedColumns": [f"params.`{name}`" for name in SETTINGS] + [f"metrics.`{name}`" for name in headline()],
    }
    store.client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{view}", json.dumps(state))
    page = f"{address}/#/experiments/{experiment}/runs"
    return f"{page}?viewStateShareKey={quote(view)}&workflowType=machine_learning"
