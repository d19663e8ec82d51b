"""The recorder ends when nobody asks it, and not while somebody is connected."""

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from flows.local.processes import start
from flows.local.recorder import Idle, recording, recording_api, stop_unused_recorder
from flows.local.up import services_lock
from kgcore.errors import InputError
from tasks.workspace.services import RECORDER
from tasks.workspace.settings import uses_prefect


def test_a_connection_that_is_open_is_no_idle_time() -> None:
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await ended.wait()

    async def connected() -> tuple[float, float, float]:
        idle = Idle(app)
        await asyncio.sleep(0.02)
        before = idle.seconds
        socket = asyncio.create_task(idle({"type": "websocket"}, None, None))
        span = asyncio.create_task(idle({"type": "lifespan"}, None, None))
        await asyncio.sleep(0.02)
        during = idle.seconds
        ended.set()
        await socket
        await asyncio.sleep(0.02)
        after = idle.seconds
        await span
        return before, during, after

    before, during, after = asyncio.run(connected())
    assert before >= 0.02
    assert during == 0
    assert after >= 0.02


def test_the_switch_is_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGCAL_PREFECT", raising=False)
    assert uses_prefect()
    monkeypatch.setenv("KGCAL_PREFECT", "off")
    assert not uses_prefect()
    monkeypatch.setenv("KGCAL_PREFECT", "no")
    with pytest.raises(InputError, match="KGCAL_PREFECT is 'no': it must be on or off"):
        uses_prefect()


def test_a_home_in_which_prefect_cannot_start_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", raising=False)
    monkeypatch.delenv("PREFECT_API_DATABASE_CONNECTION_URL", raising=False)
    (home / "prefect").write_text("no folder")
    with pytest.raises(InputError, match=r"^Prefect cannot record this work: .*KGCAL_PREFECT=off"):
        recording_api()


@pytest.mark.usefixtures("home")
def test_a_recorder_that_a_command_uses_is_not_stopped() -> None:
    assert not stop_unused_recorder()  # none runs
    service = start(RECORDER, [sys.executable, "-c", "import time; time.sleep(60)"], {})
    with recording():
        assert not stop_unused_recorder()
        assert service.alive()
    assert stop_unused_recorder()
    assert not service.alive()


def test_a_command_that_starts_the_recorder_is_not_taken_for_another_up(home: Path) -> None:
    held = threading.Event()

    def start_recorder() -> None:
        with FileLock(home / "services.lock"):
            held.set()
            time.sleep(0.5)

    thread = threading.Thread(target=start_recorder)
    thread.start()
    assert held.wait(5)
    with services_lock():
        thread.join()
