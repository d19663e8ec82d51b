"""Start the MLflow server of `kgcal up`."""

from flows.local.processes import keep, setup_digest, start, wait
from tasks.tracking.store import open_store
from tasks.tracking.ui import server_command
from tasks.workspace.services import MLFLOW
from tasks.workspace.settings import mlflow_server, tracking_uri


def start_mlflow(port: int) -> None:
    """Start the MLflow server on the store of this KGCAL_HOME, and wait until it answers.

    Does nothing if the server already runs, or if MLFLOW_TRACKING_URI names another server, which must answer. Raises
    InputError if the store cannot be opened, the port is taken or the server does not answer in time.
    """
    open_store()  # creates the experiment with its artifacts in the home, or checks that a named server answers
    setup = setup_digest(tracking_uri())
    if mlflow_server() or keep(MLFLOW, setup):
        return
    command, environment = server_command(port)
    wait(start(MLFLOW, command, environment, port, "/health", setup))
