"""Cancel and end the flow runs of the local work pool."""

import time
from uuid import UUID

import psutil
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Cancelling, Crashed

from flows.local.active import active_runs
from flows.local.processes import end_processes


def cancel_runs(client: SyncPrefectClient, seconds: float) -> None:
    """Cancel the active runs, and wait until the worker has ended them, at most `seconds`."""
    api = str(client.api_url)
    for run in active_runs(api):
        client.set_flow_run_state(UUID(run.id), Cancelling(message="kgcal down"))
    end = time.monotonic() + seconds
    while active_runs(api) and time.monotonic() < end:
        time.sleep(0.5)


def end_runs(client: SyncPrefectClient) -> None:
    """End the processes of active runs, whose worker has already ended, and mark these runs as crashed."""
    left = {run.id for run in active_runs(str(client.api_url))}
    end_processes([process for process in psutil.process_iter() if _flow_run_id(process) in left])
    for run in left:
        client.set_flow_run_state(UUID(run), Crashed(message="ended by kgcal down"), force=True)


def _flow_run_id(process: psutil.Process) -> str | None:
    """Return the id of the flow run for which a worker has started this process; None for other processes."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except psutil.Error:
        return None
