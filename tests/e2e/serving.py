"""A process of `kgcal serve` on a free port."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.e2e.local import until
from tests.pipeline.command import Kgcal
from tests.ports import free_port


def answers(address: str) -> bool:
    """Return whether a server answers at /health."""
    try:
        return requests.get(f"{address}/health", timeout=5).ok
    except requests.ConnectionError:
        return False


@contextmanager
def started(
    kgcal: Kgcal, command: str, *arguments: str, port: int = 0
) -> Iterator["tuple[str, subprocess.Popen[bytes]]"]:
    """Start `kgcal serve` or `kgcal ui`, and yield its address and its process; afterwards end the process.

    port  0: any free port
    """
    port = port or free_port()
    kgcal.home.parent.mkdir(parents=True, exist_ok=True)
    words, log = kgcal.command(command, *arguments, "--port", str(port)), kgcal.home.parent / f"{command}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(words, env=kgcal.environment, cwd=kgcal.home.parent, stdout=output, stderr=output)
    try:
        address = f"http://127.0.0.1:{port}"
        until(lambda: process.poll() is not None or answers(address))
        assert process.poll() is None, written(log)
        yield address, process
    finally:
        process.terminate()
        process.wait(timeout=30)


def written(log: Path) -> str:
    return log.read_text(encoding="utf-8")
