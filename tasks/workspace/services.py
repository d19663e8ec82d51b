"""Programs that go on after the command that started them: the servers and the worker of `kgcal up`.

Each is a process of its own with a log in the home's `services` folder. What was started is remembered by process id
and by a token in its environment, so that only that very process is found again and ended.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import requests

from kgcore.errors import InputError, first_line
from tasks.workspace.settings import ensure_home, home, masked

TOKEN = "KGCAL_SERVICE"  # noqa: S105 (the name of a variable)
PATIENCE = 90.0  # seconds that a server may take until it answers; the first start makes its tables


@dataclass(frozen=True)
class Service:
    """A process that was started.

    token    stands in its environment: a process id alone may be another's by now
    url      where it serves people; '' for a worker
    health   what answers with 200 once it serves; '' for a worker
    setup    what it was started for; where that is another now, it is started anew
    """

    name: str
    pid: int
    token: str
    url: str = ""
    health: str = ""
    setup: str = ""

    def alive(self) -> bool:
        """Whether that very process still runs."""
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(TOKEN) == self.token
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def answers(self) -> bool:
        """Whether it serves; for a worker, whether it is alive."""
        return self.alive() and (not self.health or answers(self.health))

    def stop(self, patience: float = 10.0) -> None:
        """End it and what it started: asked first, made to after `patience` seconds."""
        if not self.alive():
            return
        process = psutil.Process(self.pid)
        end([*process.children(recursive=True), process], patience)


def end(processes: Sequence[psutil.Process], patience: float = 10.0) -> None:
    """End them: asked first, made to after `patience` seconds."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    _, left = psutil.wait_procs(processes, patience)
    for process in left:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(left, patience)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def answers(url: str) -> bool:
    """Whether the address answers with 200."""
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def services() -> dict[str, Service]:
    """What was started from this home and not ended since, alive or not. Raises InputError where the note of it cannot
    be read."""
    try:
        entries = [Service(**entry) for entry in json.loads(_file().read_text(encoding="utf-8"))]
    except (FileNotFoundError, NotADirectoryError):  # nothing was; a home that cannot be is told elsewhere
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{_file()} cannot be read: {first_line(error)}") from error
    return {entry.name: entry for entry in entries}


def forget(name: str) -> None:
    """Remember that service no longer."""
    _remember([service for service in services().values() if service.name != name])


def start(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    port: int | None = None,
    health: str = "",
    setup: str = "",
) -> Service:
    """Start a program on 127.0.0.1 and remember it; `health` is the path that answers once it serves.

    Raises InputError when the port is taken.
    """
    if port is not None and taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is taken by another program: name another with --{name}-port")
    folder = ensure_home() / "services"
    folder.mkdir(exist_ok=True)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited, a worker could not be interrupted
        signal.signal(signal.SIGINT, signal.default_int_handler)
    token, url = secrets.token_hex(8), f"http://127.0.0.1:{port}" if port is not None else ""
    with log_file(name).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            command,
            env=os.environ | environment | {TOKEN: token},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    service = Service(name, process.pid, token, url, url + health if url else "", setup)
    try:
        _remember([*(other for other in services().values() if other.name != name), service])
        end = time.monotonic() + 5
        while process.poll() is None and not service.alive() and time.monotonic() < end:
            time.sleep(0.01)  # its environment, by which it is known, is empty for a moment while it starts
    except BaseException:
        process.kill()
        raise
    return service


def wait(service: Service, ready: Callable[[], bool] | None = None, patience: float = PATIENCE) -> None:
    """Return as soon as the service answers, and `ready` does. Raises InputError, with the end of its log, when it dies
    or takes longer than `patience` seconds."""
    end = time.monotonic() + patience
    while not (service.answers() and (ready is None or ready())):
        dead = not service.alive()
        if dead or time.monotonic() > end:
            lines = log_file(service.name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            what = "ended" if dead else f"does not answer after {patience:.0f} seconds"
            raise InputError(
                f"{service.name} {what}: {masked(lines[-1].strip()) if lines else 'it said nothing'} (all of it: "
                f"{log_file(service.name)})"
            )
        time.sleep(0.3)


def taken(port: int) -> bool:
    """Whether another program listens on that port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def log_file(name: str) -> Path:
    """What the service says."""
    return home() / "services" / f"{name}.log"


def _file() -> Path:
    return home() / "services" / "services.json"


def _remember(entries: Sequence[Service]) -> None:
    partial = _file().with_suffix(".partial")
    partial.write_text(json.dumps([asdict(service) for service in entries], indent=1) + "\n", encoding="utf-8")
    partial.replace(_file())
