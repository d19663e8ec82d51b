"""`kgcal down`: cancel the worker's runs and stop the services that `kgcal up` has started."""

import logging

from flows.local.flow_runs import cancel_runs, end_runs
from flows.local.prefect_server import client_of
from flows.local.processes import stop
from flows.local.recorder import stop_unused_recorder
from flows.local.status import local_api
from flows.local.up import services_lock
from kgcore.errors import InputError
from tasks.tracking.store import open_store
from tasks.workspace.services import MLFLOW, PREFECT, RECORDER, WORKER, Service, recorded_services
from tasks.workspace.settings import home, tracking_uri

log = logging.getLogger("kgcal")


def down(seconds: float = 30.0) -> list[str]:
    """Cancel the worker's flow runs, stop the services, and mark the MLflow runs of dead processes as KILLED.

    Return the names of the stopped services. A recorder that a command uses is not stopped.

    seconds  time that cancelled flow runs have to end; after it they are killed and marked as crashed
    """
    with services_lock():
        known = recorded_services()
        if api := local_api():
            try:
                _end_flow_runs(api, known.get(WORKER), seconds)
            except InputError as error:  # stop the services even if the server fails
                log.warning("flow runs could not be cancelled: %s", error)
        stopped = [name for name in (WORKER, PREFECT, MLFLOW) if name in known]
        for name in stopped:
            stop(known[name])
        if stop_unused_recorder():
            stopped.append(RECORDER)
    _mark_dead_runs()
    return stopped


def _end_flow_runs(api: str, worker: Service | None, seconds: float) -> None:
    with client_of(api) as client:
        if worker is not None and worker.alive():
            cancel_runs(client, seconds)
            stop(worker)
        end_runs(client)


def _mark_dead_runs() -> None:
    """Mark an MLflow run as KILLED if its process has ended. If the store does not exist, do not create it."""
    if tracking_uri().startswith("sqlite:") and not (home() / "mlflow.db").is_file():
        return
    try:
        open_store().mark_dead_runs()
    except InputError as error:
        log.warning("runs of dead processes could not be marked: %s", error)
