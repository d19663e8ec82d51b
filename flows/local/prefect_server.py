"""What the Prefect server of `kgcal up` is told: the work pool, the deployments, and the ends of runs."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, VariableCreate, VariableUpdate, WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling, Crashed

from kgcore.errors import InputError, first_line
from tasks.workspace import services
from tasks.workspace.resources import LIMIT as GPU
from tasks.workspace.settings import home

POOL = "local-process"
DEPLOYED = "kgcal_deployed"  # the server's variable that says which deployments it has
ZOMBIES = "mark runs without a heartbeat as crashed"
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")  # after which no heartbeat is due
SILENCE = 90  # seconds without a heartbeat after which a run is taken for dead
CHECKOUT = Path(__file__).resolve().parents[2]
_ACTIVE = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


@contextmanager
def client_of(api: str) -> Iterator[SyncPrefectClient]:
    """A client of the Prefect server there. Raises InputError when it fails to answer."""
    try:
        with temporary_settings(updates={PREFECT_API_URL: api}), get_client(sync_client=True) as client:
            yield client
    except (httpx.HTTPError, PrefectException) as error:
        raise InputError(f"the Prefect server {api} does not answer as it should: {first_line(error)}") from error


def server_environment() -> dict[str, str]:
    return {
        "PREFECT_HOME": str(home() / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
    }


def prepare_server(client: SyncPrefectClient) -> None:
    """The work pool, the limit of what is on the GPU at once, and the automation that ends runs of dead processes."""
    try:
        client.read_work_pool(POOL)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    try:
        client.read_global_concurrency_limit_by_name(GPU)
    except ObjectNotFound:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU, limit=1))
    if not client.read_automations_by_name(ZOMBIES):
        ends = {f"prefect.flow-run.{state}" for state in ENDS}
        trigger = EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat"} | ends,
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=SILENCE),
        )
        crash = ChangeFlowRunState(
            state=StateType.CRASHED, name="Crashed", message=f"no heartbeat for {SILENCE} seconds", force=False
        )
        client.create_automation(AutomationCore(name=ZOMBIES, trigger=trigger, actions=[crash]))


def deploy(client: SyncPrefectClient, api: str) -> None:
    """The deployments of prefect.yaml, made or brought up to date.

    Nothing is done where they are as they were made, so that schedules somebody has changed in the dashboard stay.
    """
    current = _deployed()
    known = client.read_variable_by_name(DEPLOYED)
    if known is not None and known.value == current:
        return
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    environment = os.environ | server_environment() | {"PREFECT_API_URL": api}
    try:
        subprocess.run(  # noqa: S603
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True, timeout=180
        )
    except subprocess.TimeoutExpired:
        raise InputError("the deployments of prefect.yaml are not made after 180 seconds") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or error.stdout.strip() or "it said nothing").splitlines()
        raise InputError(f"the deployments of prefect.yaml cannot be made: {said[-1].strip()}") from None
    if known is None:
        client.create_variable(VariableCreate(name=DEPLOYED, value=current))
    else:
        client.update_variable(VariableUpdate(name=DEPLOYED, value=current))


def _deployed() -> str:
    """Digest of what the deployments are made of: their file, where it stands, the flows and their settings."""
    digest = hashlib.sha256(str(CHECKOUT).encode())
    sources = [CHECKOUT / "prefect.yaml", *sorted((CHECKOUT / "flows").rglob("*.py"))]
    sources += sorted((CHECKOUT / "kgcore" / "config").glob("*.py"))
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def active_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """The runs of the work pool that have begun and not ended."""
    states = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ACTIVE)))
    pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
    return client.read_flow_runs(flow_run_filter=states, work_pool_filter=pool)


def cancel_runs(client: SyncPrefectClient, patience: float) -> None:
    """Cancel the runs of the pool, and wait until the worker has ended them."""
    for run in active_runs(client):
        client.set_flow_run_state(run.id, Cancelling(message="kgcal down"))
    end = time.monotonic() + patience
    while active_runs(client) and time.monotonic() < end:
        time.sleep(0.5)


def end_runs(client: SyncPrefectClient) -> None:
    """End the processes of runs that no worker looks after any more, and mark the runs as crashed."""
    left = {str(run.id): run for run in active_runs(client)}
    services.end([process for process in psutil.process_iter() if _flow_run(process) in left])
    for run in left.values():
        client.set_flow_run_state(run.id, Crashed(message="ended by kgcal down"), force=True)


def _flow_run(process: psutil.Process) -> str | None:
    """The id of the flow run that the worker started this process for."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except psutil.Error:
        return None
