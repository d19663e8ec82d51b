"""Set up the Prefect server for kgcal's flows: a work pool, a GPU limit, and an automation for dead runs."""

from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from flows.local.active import WORK_POOL
from tasks.workspace.resources import GPU_LIMIT

AUTOMATION = "mark runs without a heartbeat as crashed"
HEARTBEAT = "prefect.flow-run.heartbeat"
LAST_STATES = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")  # no heartbeat comes after them
SILENT_SECONDS = 90  # a run without a heartbeat for this long counts as dead


def set_up_server(client: SyncPrefectClient) -> None:
    """Create the work pool, the GPU limit and the automation, if they do not exist."""
    try:
        client.read_work_pool(WORK_POOL)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type="process"))
    try:
        client.read_global_concurrency_limit_by_name(GPU_LIMIT)
    except ObjectNotFound:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=1))
    if not client.read_automations_by_name(AUTOMATION):
        client.create_automation(_crash_silent_runs())


def _crash_silent_runs() -> AutomationCore:
    """Return the automation that marks a run as crashed after SILENT_SECONDS of silence.

    Silence means: after a heartbeat of the run, neither another heartbeat nor one of LAST_STATES follows.
    """
    trigger = EventTrigger(
        after={HEARTBEAT},
        expect={HEARTBEAT} | {f"prefect.flow-run.{state}" for state in LAST_STATES},
        match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=SILENT_SECONDS),
    )
    crash = ChangeFlowRunState(
        state=StateType.CRASHED, name="Crashed", message=f"no heartbeat for {SILENT_SECONDS} seconds", force=False
    )
    return AutomationCore(name=AUTOMATION, trigger=trigger, actions=[crash])
