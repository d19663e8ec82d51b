"""The recorder: a Prefect API that keeps the flow runs of commands in KGCAL_HOME where no Prefect server runs.

The first command that works starts it, and it ends after IDLE_SECONDS without a request. It has no page and no
schedules. Its database is that of `kgcal up`, whose page lists these flow runs.
"""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from filelock import FileLock, Timeout

from flows.local.processes import keep, start, stop, wait
from flows.local.status import active_runs, local_api
from kgcore.errors import InputError, first_line
from tasks.workspace.services import PREFECT, RECORDER, recorded_services
from tasks.workspace.settings import ensure_home, prefect_database

log = logging.getLogger("kgcal")
IDLE_SECONDS = 600.0


@contextmanager
def recording() -> Iterator[str]:
    """Yield the API URL that records flow runs, as `recording_api` does. `kgcal down` then leaves the recorder running.

    Raises InputError as `recording_api` does.
    """
    file = _users() / f"{os.getpid()}-{threading.get_ident()}.lock"
    try:
        with FileLock(file):
            yield recording_api()
    finally:
        file.unlink(missing_ok=True)


def stop_unused_recorder() -> bool:
    """Stop the recorder, unless it does not run or a command uses it or starts it. Return whether it was stopped."""
    try:
        with FileLock(ensure_home() / "recorder.lock", timeout=0):
            recorder = recorded_services().get(RECORDER)
            if recorder is None or not recorder.alive() or any(map(_is_held, _users().glob("*.lock"))):
                return False
            stop(recorder)
            return True
    except Timeout:
        return False


def _users() -> Path:
    """Return the folder with a file for each command that uses the recorder. The command holds a lock on its file."""
    folder = ensure_home() / "locks" / "recorder"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _is_held(file: Path) -> bool:
    """Return whether a process holds the lock. Remove the file of a process that has ended."""
    try:
        with FileLock(file, timeout=0):
            file.unlink(missing_ok=True)
            return False
    except Timeout:
        return True


def recording_api() -> str:
    """Return the API URL of the Prefect server of this home: that of `kgcal up`, or the recorder, started if need be.

    Raises InputError if its database cannot be created or it does not answer in time.
    """
    with FileLock(ensure_home() / "recorder.lock"):
        if api := local_api():
            return api
        if keep(RECORDER, ""):
            return f"{recorded_services()[RECORDER].url}/api"
        try:
            return _start_recorder()
        except (InputError, OSError) as error:
            without = "with KGCAL_PREFECT=off, work is done without Prefect"
            raise InputError(f"Prefect cannot record this work: {first_line(error)} ({without})") from error


def _start_recorder() -> str:
    from flows.local.prefect_server import client_of, create_prefect_database, server_environment, set_up_server

    log.info("starting Prefect, which records the flow runs of this home")
    create_prefect_database()
    port = _free_port()
    environment = server_environment() | {"PREFECT_UI_ENABLED": "false", "PREFECT__SERVER_EPHEMERAL": "1"}
    command = [sys.executable, "-m", "flows.local.recorder", str(port), str(IDLE_SECONDS)]
    with FileLock(ensure_home() / "services.lock"):  # that of `kgcal up`: both write the record of services
        if api := local_api():
            return api
        server = recorded_services().get(PREFECT)
        alone = not prefect_database() and not (server and server.alive())
        service = start(RECORDER, command, environment, port, "/api/health")
    wait(service)
    api = f"{service.url}/api"
    with client_of(api) as client:
        set_up_server(client)
        if alone:  # otherwise another server or another home may have runs
            _end_dead_runs(client, api)
    return api


def _end_dead_runs(client: Any, api: str) -> None:
    """Mark the unfinished flow runs of commands as crashed. No command runs while its home has no recorder."""
    from prefect.states import Crashed

    for run in active_runs(api, by_hand=True):
        client.set_flow_run_state(UUID(run["id"]), Crashed(message="its process has ended"), force=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Idle:
    """An ASGI application that knows since when it has had no request.

    app    the application that answers
    open   number of requests and web sockets that are open
    since  time of the last one's end, in seconds of a monotonic clock
    """

    def __init__(self, app: Any) -> None:
        self.app, self.open, self.since = app, 0, time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request. The server's own life span is not one."""
        request = scope["type"] != "lifespan"
        self.open += request
        try:
            await self.app(scope, receive, send)
        finally:
            self.open, self.since = self.open - request, time.monotonic()

    @property
    def seconds(self) -> float:
        """How long there has been no request."""
        return 0.0 if self.open else time.monotonic() - self.since


async def serve(port: int, seconds: float) -> None:
    """Answer requests on a port of 127.0.0.1, until there has been none for some seconds."""
    import asyncio

    import uvicorn
    from prefect.server.api.server import create_app

    idle = Idle(create_app(final=True))
    server = uvicorn.Server(uvicorn.Config(idle, host="127.0.0.1", port=port, log_level="warning", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    while not serving.done() and idle.seconds < seconds:
        await asyncio.wait([serving], timeout=min(seconds, 1.0))
    server.should_exit = True
    await serving


if __name__ == "__main__":
    import asyncio

    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
