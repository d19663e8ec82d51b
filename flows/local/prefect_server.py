"""The Prefect server of `kgcal up`: its database, its start, its set-up, and clients of it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import prefect
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.local.processes import keep, setup_digest, start, wait
from flows.local.status import WORK_POOL
from kgcore.errors import InputError, first_line, masked
from tasks.tracking.connection import check_database, new_sqlite_file, write_or_copy
from tasks.workspace.resources import GPU_LIMIT
from tasks.workspace.services import PREFECT, recorded_services
from tasks.workspace.settings import home, prefect_database

APPLICATION = Path(__file__).resolve().parents[2]  # the folder of flows/ and tasks/: a checkout, or kgcal/ of a wheel
PREFECT_SECONDS = 180  # longest time of a `prefect` command
AUTOMATION = "mark runs without a heartbeat as crashed"
HEARTBEAT = "prefect.flow-run.heartbeat"
LAST_STATES = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")  # no heartbeat comes after them
SILENT_SECONDS = 90  # a run without a heartbeat for this long counts as dead


def start_prefect(port: int) -> str:
    """Start the Prefect server unless it already runs, wait until it answers, and return the URL of its API.

    Raises InputError if its database cannot be opened, the port is taken or the server does not answer in time.
    """
    database = prefect_database()  # the server reads the variable itself: it may hold a password
    setup = setup_digest(database)
    if not keep(PREFECT, setup):
        if database:
            check_database(database.replace("+asyncpg", "", 1), "Prefect's database")
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        # the dashboard's API address: by default Prefect uses port 4200, even if the server has another port
        environment = server_environment() | {"PREFECT_UI_API_URL": f"http://127.0.0.1:{port}/api"}
        wait(start(PREFECT, command, environment, port, "/api/health", setup))
    return f"{recorded_services()[PREFECT].url}/api"


def server_environment() -> dict[str, str]:
    """Return the environment variables that every Prefect process of this KGCAL_HOME needs."""
    return {
        "PREFECT_HOME": str(home() / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PYTHONPATH": os.pathsep.join([str(APPLICATION), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


@contextmanager
def client_of(api: str) -> Iterator[SyncPrefectClient]:
    """Yield a client of the Prefect server at the URL `api`.

    Raises InputError if a request fails inside the `with` block.
    """
    try:
        with temporary_settings(updates={PREFECT_API_URL: api}), get_client(sync_client=True) as client:
            yield client
    except (httpx.HTTPError, PrefectException) as error:
        raise InputError(f"a request to the Prefect server {api} failed: {first_line(error)}") from error


def create_prefect_database() -> None:
    """Create the database in KGCAL_HOME, unless it exists or the environment names another database.

    Some of Prefect's migrations commit before they are complete: a server that is killed during such a migration leaves
    a database that no server can migrate. So the file is complete under its name, or does not exist.

    The first one of an installation takes about 7 seconds; later ones are copies. Raises InputError if Prefect cannot
    create it.
    """
    path = home() / "prefect" / "prefect.db"
    if prefect_database() or path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def migrate(file: Path) -> None:
        database = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{file}"}
        run_prefect(["server", "database", "upgrade", "--yes"], database, f"Prefect's database {path}")

    with new_sqlite_file(path) as partial:
        write_or_copy(partial, f"prefect-{prefect.__version__}.db", migrate)


def run_prefect(arguments: Sequence[str], environment: dict[str, str], what: str) -> None:
    """Run a `prefect` command beside flows/. Raises InputError, which calls its result `what`, if it fails."""
    try:
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "prefect", *arguments],
            cwd=APPLICATION,
            env=os.environ | server_environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=PREFECT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{what} cannot be created within {PREFECT_SECONDS} seconds") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stderr.strip() or error.stdout.strip() or "no output").splitlines()
        raise InputError(f"{what} cannot be created: {masked(lines[-1].strip())}") from None


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
