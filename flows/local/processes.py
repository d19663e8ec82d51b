"""Programs that keep running after the command that started them: functions to start, wait for, keep and stop them."""

import hashlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psutil

from kgcore.errors import InputError, masked
from tasks.workspace.services import (
    TOKEN_VARIABLE,
    Service,
    log_file,
    port_is_taken,
    recorded_services,
    services_folder,
    write_record,
)
from tasks.workspace.settings import ensure_home

READY_SECONDS, KEEP_SECONDS = 90.0, 20.0  # longest time until a server that starts, or that runs, answers
END_SECONDS = 10.0  # time that a process has to end


def start(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    port: int | None = None,
    health: str = "",
    setup: str = "",
) -> Service:
    """Start a program in the background, with its output in its log file, and record it.

    environment  variables in addition to the variables of this process
    port         port of 127.0.0.1 that the program will listen on
    health       path that answers with status 200 when the program is ready
    setup        digest of the settings, see `setup_digest`

    Raises InputError if the port is taken.
    """
    if port is not None and port_is_taken(port):
        raise InputError(
            f"port {port} of 127.0.0.1 is in use by another program: choose another port with --{name}-port"
        )
    ensure_home()
    services_folder().mkdir(exist_ok=True)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a program that inherits SIG_IGN cannot be interrupted
        signal.signal(signal.SIGINT, signal.default_int_handler)
    token, url = secrets.token_hex(8), f"http://127.0.0.1:{port}" if port is not None else ""
    with log_file(name).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            command,
            env=os.environ | environment | {TOKEN_VARIABLE: token},
            cwd=services_folder(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    service = Service(name, process.pid, token, url, url + health if url else "", setup)
    try:
        write_record([*(other for other in recorded_services().values() if other.name != name), service])
        end = time.monotonic() + 5
        while process.poll() is None and not service.alive() and time.monotonic() < end:
            time.sleep(0.01)  # for a moment, a new process has an empty environment and thus no token
    except BaseException:
        process.kill()
        raise
    return service


def wait(service: Service, ready: Callable[[], bool] | None = None) -> None:
    """Return when the service answers and `ready` returns True.

    Raises InputError, with the last line of the log, if the service ends or needs longer than READY_SECONDS.
    """
    end = time.monotonic() + READY_SECONDS
    while not (service.ready() and (ready is None or ready())):
        dead = not service.alive()
        if dead or time.monotonic() > end:
            lines = log_file(service.name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            what = "ended" if dead else f"does not answer after {READY_SECONDS:.0f} seconds"
            last = masked(lines[-1].strip()) if lines else "its log is empty"
            raise InputError(f"{service.name} {what}: {last} (log: {log_file(service.name)})")
        time.sleep(0.3)


def keep(name: str, setup: str) -> bool:
    """Return whether the service `name` already runs with this setup and can be kept. If not, stop what is left of it.

    A live service has KEEP_SECONDS to answer.
    """
    service = recorded_services().get(name)
    if service is None:
        return False
    end = time.monotonic() + KEEP_SECONDS
    while service.alive() and service.setup == setup:
        if service.ready():
            return True
        if time.monotonic() > end:
            break
        time.sleep(0.5)
    stop(service)
    return False


def stop(service: Service) -> None:
    """End the service and all processes that it started, and remove it from the record of services."""
    if service.alive():
        process = psutil.Process(service.pid)
        end_processes([*process.children(recursive=True), process])
    write_record(other for other in recorded_services().values() if other.name != service.name)


def end_processes(processes: Sequence[psutil.Process]) -> None:
    """Send SIGTERM to the processes, and SIGKILL after END_SECONDS to those that still run."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        _, processes = psutil.wait_procs(processes, END_SECONDS)


def setup_digest(*settings: str) -> str:
    """Return a digest of a service's settings, to notice when they change.

    The record holds this digest instead of the settings, because an address may contain a password.
    """
    return hashlib.sha256(" ".join(settings).encode()).hexdigest()[:16]
