"""`kgcal up`: start the servers and the worker if they do not run yet, and create the deployments."""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from filelock import FileLock, Timeout
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate
from prefect.settings import PREFECT_API_URL

from flows.deployments import prefect_yaml
from flows.job import all_jobs
from flows.local.prefect_server import (
    APPLICATION,
    client_of,
    create_prefect_database,
    run_prefect,
    server_environment,
    set_up_server,
    start_prefect,
)
from flows.local.processes import keep, setup_digest, start, stop, wait
from flows.local.status import MLFLOW_PORT, PREFECT_PORT, WORK_POOL
from kgcore.errors import InputError, masked
from tasks.tracking.store import open_store
from tasks.tracking.ui import server_command
from tasks.workspace.resources import cores
from tasks.workspace.services import MLFLOW, PREFECT, WORKER, recorded_services
from tasks.workspace.settings import ensure_home, home, mlflow_server, temporary_folder, tracking_uri

CONCURRENT_RUNS = 2  # flow runs of the worker at the same time; they share the cores
VARIABLE = "kgcal_deployed"  # a variable on the server: the digest of the last deployed sources
START_SECONDS = 10.0  # longest time in which a process starts, without the wait for its answer


def up(mlflow_port: int | None = None, prefect_port: int | None = None) -> None:
    """Start the services that do not run yet, and wait until each service answers.

    mlflow_port, prefect_port  ports of 127.0.0.1; None: the port of the last start, else MLFLOW_PORT and PREFECT_PORT

    Raises InputError if the environment names a Prefect server, a port is taken, a server does not answer in time or
    the deployments cannot be created. In these cases the services that this call has started are stopped.
    """
    _refuse_another_server()
    with services_lock():
        before = recorded_services()
        try:
            with ThreadPoolExecutor(1) as background:
                database = background.submit(create_prefect_database)
                start_mlflow(_port(MLFLOW, mlflow_port, MLFLOW_PORT))
                database.result()
            api = start_prefect(_port(PREFECT, prefect_port, PREFECT_PORT))
            with client_of(api) as client:
                set_up_server(client)
                deploy(client, api)
                start_worker(client, api)
        except BaseException:
            for name, service in reversed(recorded_services().items()):
                if before.get(name) != service:
                    stop(service)
            raise


@contextmanager
def services_lock() -> Iterator[None]:
    """Hold the lock of this KGCAL_HOME, so that only one `kgcal up` or `kgcal down` runs at a time.

    A command that starts the recorder holds the lock, too, for less than START_SECONDS. Raises InputError if another
    `kgcal up` or `kgcal down` runs.
    """
    lock = FileLock(ensure_home() / "services.lock")
    try:
        lock.acquire(timeout=START_SECONDS)
    except Timeout:
        raise InputError(
            "another `kgcal up` or `kgcal down` of this KGCAL_HOME is running: wait until it ends"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _refuse_another_server() -> None:
    named, server = PREFECT_API_URL.value(), recorded_services().get(PREFECT)
    if named and (server is None or named.removesuffix("/") != f"{server.url}/api"):
        raise InputError(
            f"PREFECT_API_URL already names a Prefect server, {masked(named)}: unset it to start a server of your own, "
            "or create the deployments there with `prefect deploy --all`"
        )


def _port(name: str, asked: int | None, default: int) -> int:
    before = recorded_services().get(name)
    return asked or (int(before.url.rsplit(":", 1)[1]) if before else default)


def start_mlflow(port: int) -> None:
    """Start the MLflow server on the store of this KGCAL_HOME, and wait until it answers.

    Does nothing if the server already runs, or if MLFLOW_TRACKING_URI names another server, which must answer. Raises
    InputError if the store cannot be opened, the port is taken or the server does not answer in time.
    """
    open_store()  # creates the experiment with its artifacts in the home, or checks that a named server answers
    setup = setup_digest(tracking_uri())
    if mlflow_server() or keep(MLFLOW, setup):
        return
    command, environment = server_command(port)
    wait(start(MLFLOW, command, environment, port, "/health", setup))


def start_worker(client: SyncPrefectClient, api: str) -> None:
    """Start a worker of the work pool unless one already runs, and wait until the server knows it.

    Raises InputError if the worker does not get ready in time.
    """
    setup = setup_digest(api, tracking_uri())
    if keep(WORKER, setup):
        return
    name = f"kgcal-{os.getpid()}-{int(time.time())}"
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", WORK_POOL, "--name", name]
    command += ["--limit", str(CONCURRENT_RUNS), "--install-policy", "never"]
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // CONCURRENT_RUNS))
    environment = server_environment() | {
        "PREFECT_API_URL": api,
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "KGCAL_HOME": str(home()),
        "OMP_NUM_THREADS": threads,
    }
    worker = start(WORKER, command, environment, setup=setup)
    wait(worker, lambda: any(known.name == name for known in client.read_workers_for_work_pool(WORK_POOL)))


def deploy(client: SyncPrefectClient, api: str) -> None:
    """Create the deployments of all jobs, or update them if their sources have changed.

    If the sources have not changed, the deployments stay as they are, because a user may have edited schedules in the
    dashboard. Raises InputError if `prefect deploy` fails.
    """
    current = sources_digest()
    known = client.read_variable_by_name(VARIABLE)
    if known is not None and known.value == current:
        return
    with temporary_folder() as folder:
        file = folder / "prefect.yaml"
        file.write_text(prefect_yaml(), encoding="utf-8")
        command = ["--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
        run_prefect(command, {"PREFECT_API_URL": api}, "the deployments of kgcal")
    if known is None:
        client.create_variable(VariableCreate(name=VARIABLE, value=current))
    else:
        client.update_variable(VariableUpdate(name=VARIABLE, value=current))


def sources_digest() -> str:
    """Return a digest of everything that the server stores about deployments.

    These are the folder in which runs start, the text of prefect.yaml, and the form of each flow: its parameters with
    descriptions, ranges and choices. A new model or corruption strategy is a new choice, so it changes the digest.
    """
    digest = hashlib.sha256(f"{APPLICATION}\n{prefect_yaml()}".encode())
    for job in all_jobs():
        digest.update(job.flow.parameters.model_dump_json().encode())
    return digest.hexdigest()
