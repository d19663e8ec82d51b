"""The Prefect server of `kgcal up`, and clients of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectException
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.local.processes import keep, setup_digest, start, wait
from kgcore.errors import InputError, first_line
from tasks.tracking.places import check_database
from tasks.workspace.services import PREFECT, recorded_services
from tasks.workspace.settings import home, prefect_database


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
