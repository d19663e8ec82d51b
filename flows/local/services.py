"""`kgcal up`, `kgcal down`, `kgcal status`: servers, a worker and the deployments for one person on one machine.

A Prefect server that others share is none of theirs: its pools, deployments and workers are its keepers' to make.
"""

import hashlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from filelock import FileLock, Timeout
from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import PREFECT_API_URL

from flows.local.prefect_server import (
    CHECKOUT,
    POOL,
    active_runs,
    cancel_runs,
    client_of,
    deploy,
    end_runs,
    prepare_server,
    server_environment,
)
from kgcore.errors import InputError
from tasks.tracking.places import check_database
from tasks.tracking.store import open_store
from tasks.tracking.ui import server_command
from tasks.workspace import services
from tasks.workspace.resources import cores
from tasks.workspace.settings import ensure_home, home, masked, mlflow_server, prefect_database, tracking_uri

MLFLOW, PREFECT, WORKER = "mlflow", "prefect", "worker"
AT_ONCE = 2  # runs of the worker, which share the cores
log = logging.getLogger("kgcal")


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
                prepare_server(client)
                deploy(client, api)
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
                        cancel_runs(client, patience)
                        known[WORKER].stop()
                    end_runs(client)
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
        if name == MLFLOW and service is None and (uri := mlflow_server()):
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
            runs = active_runs(client)
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
    if mlflow_server() or _keep(MLFLOW, tracking_uri()):
        return
    command, environment = server_command(port)
    services.wait(services.start(MLFLOW, command, environment, port, "/health", _digest(tracking_uri())))


def _prefect(port: int) -> str:
    """The API of the server."""
    database = prefect_database()  # which the server reads itself: it may hold a password
    if not _keep(PREFECT, database):
        if database:
            check_database(database.replace("+asyncpg", "", 1), "Prefect's database")
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        # where the dashboard in the browser finds the API: its default is port 4200, whatever the server's is
        environment = server_environment() | {"PREFECT_UI_API_URL": f"http://127.0.0.1:{port}/api"}
        services.wait(services.start(PREFECT, command, environment, port, "/api/health", _digest(database)))
    return f"{services.services()[PREFECT].url}/api"


def _worker(client: SyncPrefectClient, api: str) -> None:
    if _keep(WORKER, api, tracking_uri()):
        return
    name = f"kgcal-{os.getpid()}-{int(time.time())}"
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name]
    command += ["--limit", str(AT_ONCE), "--install-policy", "never"]
    here = {"PREFECT_API_URL": api, "KGCAL_HOME": str(home()), "PREFECT_WORKER_QUERY_SECONDS": "2"}
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // AT_ONCE))
    environment = server_environment() | here | {"OMP_NUM_THREADS": threads}
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
