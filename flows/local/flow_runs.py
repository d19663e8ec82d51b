"""The flow runs of the local work pool: list, cancel, end."""

import time

import psutil
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelling, Crashed

from flows.local.prefect_setup import WORK_POOL
from flows.local.processes import end_processes

ACTIVE_STATES = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


def active_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Return the runs of the work pool that have started and not ended."""
    states = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=ACTIVE_STATES)))
    pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL]))
    return client.read_flow_runs(flow_run_filter=states, work_pool_filter=pool)


def cancel_runs(client: SyncPrefectClient, seconds: float) -> None:
    """Cancel the active runs, and wait until the worker has ended them, at most `seconds`."""
    for run in active_runs(client):
        client.set_flow_run_state(run.id, Cancelling(message="kgcal down"))
    end = time.monotonic() + seconds
    while active_runs(client) and time.monotonic() < end:
        time.sleep(0.5)


def end_runs(client: SyncPrefectClient) -> None:
    """End the processes of active runs, whose worker has already ended, and mark these runs as crashed."""
    left = {str(run.id): run for run in active_runs(client)}
    end_processes([process for process in psutil.process_iter() if _flow_run_id(process) in left])
    for run in left.values():
        client.set_flow_run_state(run.id, Crashed(message="ended by kgcal down"), force=True)


def _flow_run_id(process: psutil.Process) -> str | None:
    """Return the id of the flow run for which a worker has started this process; None for other processes."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except psutil.Error:
        return None
