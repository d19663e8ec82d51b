"""`kgcal up`: start the servers and the worker if they do not run yet, and create the deployments."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from filelock import FileLock, Timeout
from prefect.settings import PREFECT_API_URL

from flows.local.deploy import CHECKOUT, deploy
from flows.local.mlflow_server import start_mlflow
from flows.local.prefect_database import create_prefect_database
from flows.local.prefect_server import client_of, start_prefect
from flows.local.prefect_setup import set_up_server
from flows.local.processes import stop
from flows.local.status import MLFLOW_PORT, PREFECT_PORT
from flows.local.worker import start_worker
from kgcore.errors import InputError
from tasks.workspace.services import MLFLOW, PREFECT, recorded_services
from tasks.workspace.settings import ensure_home, masked

START_SECONDS = 10.0  # longest time in which a process starts, without the wait for its answer


def up(mlflow_port: int | None = None, prefect_port: int | None = None) -> None:
    """Start the services that do not run yet, and wait until each service answers.

    mlflow_port, prefect_port  ports of 127.0.0.1; None: the port of the last start, else MLFLOW_PORT and PREFECT_PORT

    Raises InputError if the environment names a Prefect server, a port is taken, a server does not answer in time or
    the deployments cannot be created. In these cases the services that this call has started are stopped.
    """
    if not (CHECKOUT / "prefect.yaml").is_file():
        raise InputError(f"kgcal up needs prefect.yaml from the project's checkout: {CHECKOUT} does not have it")
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
