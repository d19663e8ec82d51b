"""`kgcal down`: cancel the worker's runs and stop the services that `kgcal up` has started."""

import logging
import time
from uuid import UUID

import psutil
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Cancelled, Cancelling, Crashed

from flows.local.prefect_server import client_of
from flows.local.processes import end_processes, stop
from flows.local.recorder import stop_unused_recorder
from flows.local.status import active_runs, local_api
from flows.local.up import services_lock
from kgcore.errors import InputError
from tasks.tracking.store import open_store
from tasks.workspace.services import MLFLOW, PREFECT, RECORDER, WORKER, Service, recorded_services
from tasks.workspace.settings import home, tracking_uri

log = logging.getLogger("kgcal")
MESSAGE = "ended by kgcal down"  # of the states that it gives to flow runs


def down(seconds: float = 30.0) -> list[str]:
    """Cancel the worker's flow runs, stop the services, and mark the MLflow runs of dead processes as KILLED.

    Return the names of the stopped services. A recorder that a command uses is not stopped.

    seconds  time that cancelled flow runs have to end; after it they are killed
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
    cancelled: set[str] = set()
    with client_of(api) as client:
        if worker is not None and worker.alive():
            cancelled = cancel_runs(client, seconds)
            stop(worker)
        end_runs(client, cancelled)


def _mark_dead_runs() -> None:
    """Mark an MLflow run as KILLED if its process has ended. If the store does not exist, do not create it."""
    if tracking_uri().startswith("sqlite:") and not (home() / "mlflow.db").is_file():
        return
    try:
        open_store().mark_dead_runs()
    except InputError as error:
        log.warning("runs of dead processes could not be marked: %s", error)


def cancel_runs(client: SyncPrefectClient, seconds: float) -> set[str]:
    """Cancel the active runs, wait until the worker has ended them, at most `seconds`, and return their ids."""
    api = str(client.api_url)
    runs = {run["id"] for run in active_runs(api)}
    for run in runs:
        client.set_flow_run_state(UUID(run), Cancelling(message=MESSAGE))
    end = time.monotonic() + seconds
    while active_runs(api) and time.monotonic() < end:
        time.sleep(0.5)
    return runs


def end_runs(client: SyncPrefectClient, cancelled: set[str]) -> None:
    """End the processes of active runs, whose worker has already ended, and mark these runs as crashed.

    cancelled  ids of the runs that this command has cancelled. They are marked as cancelled, those included that the
               worker has marked as crashed: it does so if it sees the end of their process before it can record why.
    """
    left = {run["id"] for run in active_runs(str(client.api_url))}
    end_processes([process for process in psutil.process_iter() if _flow_run_id(process) in left])
    for run in left - cancelled:
        client.set_flow_run_state(UUID(run), Crashed(message=MESSAGE), force=True)
    for run in cancelled:
        state = client.read_flow_run(UUID(run)).state
        if state is None or state.is_crashed() or not state.is_final():
            client.set_flow_run_state(UUID(run), Cancelled(message=MESSAGE), force=True)


def _flow_run_id(process: psutil.Process) -> str | None:
    """Return the id of the flow run for which a worker has started this process; None for other processes."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except psutil.Error:
        return None
