"""`kgcal up`, `kgcal down`, `kgcal status`: servers, a worker and the deployments for one person on one machine.

What the environment names (PREFECT_API_URL, MLFLOW_TRACKING_URI with http) is used and never started or ended.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

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
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling, Crashed

from kgcore.errors import InputError, first_line
from tasks import services
from tasks.services import Service
from tasks.settings import ensure_home, home, tracking_uri
from tasks.store import open_store
from tasks.ui import server_command

POOL = "local-process"
GPU = "gpu"  # the concurrency limit that stages on a GPU take a slot of
ZOMBIES = "mark runs without a heartbeat as crashed"
SILENCE = 90  # seconds without a heartbeat after which a run is taken for dead
MLFLOW, PREFECT, WORKER = "mlflow", "prefect", "worker"
CHECKOUT = Path(__file__).resolve().parents[1]
_ACTIVE = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


@dataclass(frozen=True)
class Seen:
    """What `kgcal status` says of a service: its name, a word for its state, and where it is."""

    name: str
    state: str
    place: str


def up(mlflow_port: int = 5000, prefect_port: int = 4200) -> list[Seen]:
    """Start what is missing, each waited for until it answers; what there is then.

    Raises InputError when a port is taken, a server does not come up, or the deployments cannot be made: what this call
    started is then ended again.
    """
    if not (CHECKOUT / "prefect.yaml").is_file():
        raise InputError(f"kgcal up needs the project's checkout, for prefect.yaml: {CHECKOUT} is none")
    with _alone():
        before = {name for name, service in services.services().items() if service.alive()}
        try:
            _mlflow(mlflow_port)
            url = _prefect(prefect_port)
            with client_of(url) as client:
                _prepare_server(client)
                _deploy(url)
                _worker(client, url)
        except BaseException:
            for name, service in reversed(services.services().items()):
                if name not in before:
                    service.stop()
                    services.forget(name)
            raise
    return status()


def down(patience: float = 30.0) -> list[str]:
    """Cancel what the worker runs, end what `up` started, and mark the runs of dead processes; what was ended.

    patience  seconds that cancelled runs have to end; what then still runs is marked as crashed
    """
    with _alone():
        known = services.services()
        server = known.get(PREFECT)
        if WORKER in known and known[WORKER].alive() and (url := _running_prefect(server)):
            with client_of(url) as client:
                _cancel(client, patience)
        ended = []
        for name in (WORKER, PREFECT, MLFLOW):
            if name in known:
                ended += [name] if known[name].alive() else []
                known[name].stop()
                services.forget(name)
    if (home() / "mlflow.db").is_file() or not tracking_uri().startswith("sqlite:"):
        open_store().reap()
    return ended


def status() -> list[Seen]:
    """The services, and what the worker is at."""
    known = services.services()
    seen = []
    external = {PREFECT: PREFECT_API_URL.value(), MLFLOW: _external_mlflow()}
    for name in (MLFLOW, PREFECT, WORKER):
        service, elsewhere = known.get(name), external.get(name)
        if elsewhere:
            answering = services.answers(f"{elsewhere.removesuffix('/')}/health")
            seen.append(Seen(name, "not ours, answers" if answering else "not ours, does not answer", elsewhere))
        elif service is None:
            seen.append(Seen(name, "not started", ""))
        elif not service.alive():
            seen.append(Seen(name, "dead", f"log: {services.log_file(name)}"))
        else:
            state = "up" if service.answers() else "does not answer"
            seen.append(Seen(name, state, service.url or f"process {service.pid}"))
    if url := _running_prefect(known.get(PREFECT)):
        with client_of(url) as client:
            runs = _active(client)
            seen += [Seen("run", (run.state_name or "").lower(), f"{run.name} ({run.id})") for run in runs]
    return seen


def local_api() -> str | None:
    """The API of the Prefect server that `up` started from this home, if it answers."""
    return _running_prefect(services.services().get(PREFECT))


@contextmanager
def client_of(url: str) -> Iterator[SyncPrefectClient]:
    """A client of the Prefect server at that API."""
    with temporary_settings(updates={PREFECT_API_URL: url}), get_client(sync_client=True) as client:
        yield client


@contextmanager
def _alone() -> Iterator[None]:
    """Two `up` or `down` at once would start things twice."""
    lock = FileLock(ensure_home() / "services.lock")
    try:
        with lock.acquire(timeout=0):
            yield
    except Timeout:
        raise InputError("another kgcal up or down is at work on this home: wait for it to end") from None


def _mlflow(port: int) -> None:
    if _external_mlflow():
        open_store()  # it must answer
        return
    if _keep(MLFLOW):
        return
    open_store()  # makes the tables, and the experiment with its artifacts in the home
    command, quiet = server_command(port)
    services.wait(services.start(MLFLOW, command, quiet, port, "/health"))


def _external_mlflow() -> str | None:
    uri = tracking_uri()
    return uri if uri.startswith(("http://", "https://")) else None


def _prefect(port: int) -> str:
    """The API of the server."""
    if url := PREFECT_API_URL.value():
        if not services.answers(f"{url.removesuffix('/')}/health"):
            raise InputError(f"the Prefect server {url} does not answer: start it, or unset PREFECT_API_URL")
        return str(url)
    if not _keep(PREFECT):
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        services.wait(services.start(PREFECT, command, _prefect_environment(), port, "/api/health"))
    return f"{services.services()[PREFECT].url}/api"


def _worker(client: SyncPrefectClient, url: str) -> None:
    if _keep(WORKER):
        return
    name = f"kgcal-{os.getpid()}-{int(time.time())}"
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name, "--limit", "2"]
    command += ["--install-policy", "never"]
    here = {"PREFECT_API_URL": url, "KGCAL_HOME": str(home()), "PREFECT_WORKER_QUERY_SECONDS": "2"}
    worker = services.start(WORKER, command, _prefect_environment() | here)
    services.wait(worker, lambda: any(w.name == name for w in client.read_workers_for_work_pool(POOL)))


def _keep(name: str) -> bool:
    """Whether that service is up already; what is left of one that does not answer is ended."""
    service = services.services().get(name)
    if service is None or service.answers():
        return service is not None
    service.stop()
    services.forget(name)
    return False


def _prefect_environment() -> dict[str, str]:
    return {
        "PREFECT_HOME": str(home() / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    }


def _prepare_server(client: SyncPrefectClient) -> None:
    """The work pool, the limit of GPU stages, and the automation that ends runs whose process is gone."""
    try:
        client.read_work_pool(POOL)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    try:
        client.read_global_concurrency_limit_by_name(GPU)
    except ObjectNotFound:
        client.upsert_global_concurrency_limit_by_name(GPU, 1)
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


def _deploy(url: str) -> None:
    """The deployments of prefect.yaml, made or brought up to date."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    environment = os.environ | _prefect_environment() | {"PREFECT_API_URL": url}
    done = subprocess.run(  # noqa: S603
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise InputError(f"the deployments of prefect.yaml cannot be made: {said[-1].strip() if said else ''}")


def _running_prefect(server: Service | None) -> str | None:
    """The API of a server that `up` started, if it answers; of the one the environment names, else."""
    if url := PREFECT_API_URL.value():
        return url if services.answers(f"{url.removesuffix('/')}/health") else None
    return f"{server.url}/api" if server is not None and server.answers() else None


def _active(client: SyncPrefectClient) -> list[FlowRun]:
    """The runs of the work pool that have begun and not ended."""
    states = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ACTIVE)))
    pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
    return client.read_flow_runs(flow_run_filter=states, work_pool_filter=pool)


def _cancel(client: SyncPrefectClient, patience: float) -> None:
    """Cancel the runs of the pool, and mark as crashed what does not end in time."""
    try:
        for run in _active(client):
            client.set_flow_run_state(run.id, Cancelling(message="kgcal down"))
        end = time.monotonic() + patience
        while (left := _active(client)) and time.monotonic() < end:
            time.sleep(0.5)
        for run in left:
            client.set_flow_run_state(run.id, Crashed(message="ended by kgcal down"), force=True)
    except Exception as error:  # a server that is dying must not keep the rest from being ended
        raise InputError(f"runs could not be cancelled: {first_line(error)}") from error
