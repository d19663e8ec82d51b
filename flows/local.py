"""`kgcal up`, `kgcal down`, `kgcal status`: servers, a worker and the deployments for one person on one machine.

A Prefect server that others share is none of theirs: its pools, deployments and workers are its keepers' to make.
"""

import hashlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import psutil
from filelock import FileLock, Timeout
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
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
from tasks import services
from tasks.places import check_database
from tasks.settings import ensure_home, home, masked, prefect_database, tracking_uri
from tasks.store import open_store
from tasks.ui import server_command

POOL = "local-process"
ZOMBIES = "mark runs without a heartbeat as crashed"
SILENCE = 90  # seconds without a heartbeat after which a run is taken for dead
MLFLOW, PREFECT, WORKER = "mlflow", "prefect", "worker"
CHECKOUT = Path(__file__).resolve().parents[1]
log = logging.getLogger("kgcal")
_ACTIVE = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


@dataclass(frozen=True)
class Seen:
    """What `kgcal status` says of a service: its name, a word for its state, and where it is."""

    name: str
    state: str
    place: str


def up(mlflow_port: int | None = None, prefect_port: int | None = None) -> list[Seen]:
    """Start what is missing, each waited for until it answers; what there is then.

    mlflow_port, prefect_port  None: where the server was the last time, or else 5000 and 4200

    Raises InputError when the environment names a Prefect server, a port is taken, a server does not come up, or the
    deployments cannot be made: what this call started is then ended again.
    """
    if not (CHECKOUT / "prefect.yaml").is_file():
        raise InputError(f"kgcal up needs the project's checkout, for prefect.yaml: {CHECKOUT} is none")
    _refuse_another_server()
    with _alone():
        before = services.services()
        try:
            _mlflow(_port(MLFLOW, mlflow_port, 5000))
            api = _prefect(_port(PREFECT, prefect_port, 4200))
            with client_of(api) as client:
                _prepare_server(client)
                _deploy(api)
                _worker(client, api)
        except BaseException:
            for name, service in reversed(services.services().items()):
                if before.get(name) != service:
                    service.stop()
                    services.forget(name)
            raise
    return status()


def down(patience: float = 30.0) -> list[str]:
    """Cancel what the worker runs, end what `up` started, and mark the runs of dead processes; what was ended.

    patience  seconds that cancelled runs have to end; what then still runs is ended and marked as crashed
    """
    with _alone():
        known = services.services()
        if api := local_api():
            try:
                with client_of(api) as client:
                    if WORKER in known and known[WORKER].alive():
                        _cancel(client, patience)
                        known[WORKER].stop()
                    _end_runs(client)
            except InputError as error:  # a server that is dying keeps nothing else from being ended
                log.warning("runs could not be cancelled: %s", error)
        ended = [name for name in (WORKER, PREFECT, MLFLOW) if name in known]
        for name in ended:
            known[name].stop()
            services.forget(name)
    if (home() / "mlflow.db").is_file() or not tracking_uri().startswith("sqlite:"):
        try:
            open_store().reap()
        except InputError as error:
            log.warning("runs of dead processes could not be marked: %s", error)
    return ended


def status() -> list[Seen]:
    """The services, and what the worker is at."""
    known, seen = services.services(), []
    for name in (MLFLOW, PREFECT, WORKER):
        service = known.get(name)
        if name == MLFLOW and service is None and (uri := _external_mlflow()):
            open_store()  # it must answer
            seen.append(Seen(name, "elsewhere", masked(uri)))
        elif service is None:
            seen.append(Seen(name, "not started", ""))
        elif not service.alive():
            seen.append(Seen(name, "dead", f"log: {services.log_file(name)}"))
        else:
            state = "up" if service.answers() else "does not answer"
            seen.append(Seen(name, state, service.url or f"process {service.pid}"))
    if api := local_api():
        with client_of(api) as client:
            runs = _active(client)
            seen += [Seen("run", (run.state_name or "").lower(), f"{run.name} ({run.id})") for run in runs]
    return seen


def local_api() -> str | None:
    """The API of the Prefect server that `up` started from this home, if it answers; with a warning where it is there
    and does not."""
    server = services.services().get(PREFECT)
    if server is None or not server.alive():
        return None
    if not server.answers():
        log.warning("the Prefect server of kgcal up, %s, does not answer: going on without it", server.url)
        return None
    return f"{server.url}/api"


@contextmanager
def client_of(api: str) -> Iterator[SyncPrefectClient]:
    """A client of the Prefect server there. Raises InputError when it fails to answer."""
    try:
        with temporary_settings(updates={PREFECT_API_URL: api}), get_client(sync_client=True) as client:
            yield client
    except (httpx.HTTPError, PrefectException) as error:
        raise InputError(f"the Prefect server {api} does not answer as it should: {first_line(error)}") from error


@contextmanager
def _alone() -> Iterator[None]:
    """Two `up` or `down` at once would start things twice."""
    lock = FileLock(ensure_home() / "services.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError("another kgcal up or down is at work on this home: wait for it to end") from None
    try:
        yield
    finally:
        lock.release()


def _refuse_another_server() -> None:
    named, server = PREFECT_API_URL.value(), services.services().get(PREFECT)
    if named and (server is None or named.removesuffix("/") != f"{server.url}/api"):
        raise InputError(
            f"PREFECT_API_URL names a Prefect server already, {masked(named)}: unset it for one of your own, or deploy "
            "there with `prefect deploy --all`"
        )


def _port(name: str, asked: int | None, usual: int) -> int:
    """The port that a server is to have."""
    before = services.services().get(name)
    return asked or (int(before.url.rsplit(":", 1)[1]) if before else usual)


def _mlflow(port: int) -> None:
    open_store()  # it must answer; or makes the tables, and the experiment with its artifacts in the home
    if _external_mlflow() or _keep(MLFLOW, tracking_uri()):
        return
    command, environment = server_command(port)
    services.wait(services.start(MLFLOW, command, environment, port, "/health", _digest(tracking_uri())))


def _external_mlflow() -> str | None:
    uri = tracking_uri()
    return uri if uri.startswith(("http://", "https://")) else None


def _prefect(port: int) -> str:
    """The API of the server."""
    database = prefect_database()  # which the server reads itself: it may hold a password
    if not _keep(PREFECT, database):
        if database:
            check_database(database.replace("+asyncpg", "", 1), "Prefect's database")
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        environment = _prefect_environment()
        services.wait(services.start(PREFECT, command, environment, port, "/api/health", _digest(database)))
    return f"{services.services()[PREFECT].url}/api"


def _worker(client: SyncPrefectClient, api: str) -> None:
    if _keep(WORKER, api, tracking_uri()):
        return
    name = f"kgcal-{os.getpid()}-{int(time.time())}"
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name, "--limit", "2"]
    command += ["--install-policy", "never"]
    here = {"PREFECT_API_URL": api, "KGCAL_HOME": str(home()), "PREFECT_WORKER_QUERY_SECONDS": "2"}
    environment = _prefect_environment() | here
    worker = services.start(WORKER, command, environment, setup=_digest(api, tracking_uri()))
    services.wait(worker, lambda: any(w.name == name for w in client.read_workers_for_work_pool(POOL)))


def _keep(name: str, *setup: str, patience: float = 20.0) -> bool:
    """Whether that service is up already, for this setup; what is left of another is ended."""
    service = services.services().get(name)
    if service is None:
        return False
    end = time.monotonic() + patience
    while service.alive() and service.setup == _digest(*setup):
        if service.answers():
            return True
        if time.monotonic() > end:
            break
        time.sleep(0.5)
    service.stop()
    services.forget(name)
    return False


def _digest(*setup: str) -> str:
    """What a service was started for, to compare it: an address may hold a password."""
    return hashlib.sha256(" ".join(setup).encode()).hexdigest()[:16]


def _prefect_environment() -> dict[str, str]:
    return {
        "PREFECT_HOME": str(home() / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
    }


def _prepare_server(client: SyncPrefectClient) -> None:
    """The work pool, and the automation that ends runs whose process is gone."""
    try:
        client.read_work_pool(POOL)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    if not client.read_automations_by_name(ZOMBIES):
        ends = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
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


def _deploy(api: str) -> None:
    """The deployments of prefect.yaml, made or brought up to date."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    environment = os.environ | _prefect_environment() | {"PREFECT_API_URL": api}
    try:
        subprocess.run(  # noqa: S603
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True, timeout=180
        )
    except subprocess.TimeoutExpired:
        raise InputError("the deployments of prefect.yaml are not made after 180 seconds") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or error.stdout.strip() or "it said nothing").splitlines()
        raise InputError(f"the deployments of prefect.yaml cannot be made: {masked(said[-1].strip())}") from None


def _active(client: SyncPrefectClient) -> list[FlowRun]:
    """The runs of the work pool that have begun and not ended."""
    states = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ACTIVE)))
    pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
    return client.read_flow_runs(flow_run_filter=states, work_pool_filter=pool)


def _cancel(client: SyncPrefectClient, patience: float) -> None:
    """Cancel the runs of the pool, and wait until the worker has ended them."""
    for run in _active(client):
        client.set_flow_run_state(run.id, Cancelling(message="kgcal down"))
    end = time.monotonic() + patience
    while _active(client) and time.monotonic() < end:
        time.sleep(0.5)


def _end_runs(client: SyncPrefectClient) -> None:
    """End the processes of runs that no worker looks after any more, and mark the runs as crashed."""
    left = {str(run.id): run for run in _active(client)}
    services.end([process for process in psutil.process_iter() if _flow_run(process) in left])
    for run in left.values():
        client.set_flow_run_state(run.id, Crashed(message="ended by kgcal down"), force=True)


def _flow_run(process: psutil.Process) -> str | None:
    """The id of the flow run that the worker started this process for."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except psutil.Error:
        return None
