"""Ctrl-C and SIGTERM while the store is written: the transaction ends, and the process can write at once."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tasks.tracking.connection import uninterrupted
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def sigterm_exits() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    yield
    signal.signal(signal.SIGTERM, before)


def write_for_ever(store: Store) -> None:
    with store.open_run("written", RunTags(stage="train")) as run:
        while True:
            store.log_metrics(run, {"loss": 1.0}, step=1)


@pytest.mark.usefixtures("sigterm_exits")
def test_an_interrupted_write_leaves_no_lock_and_no_run_running() -> None:
    store, rng = open_store(), random.Random(0)
    for number in [signal.SIGINT, signal.SIGTERM] * 10:
        timer = threading.Timer(rng.uniform(0.005, 0.08), os.kill, (os.getpid(), number))
        timer.start()
        started = time.monotonic()
        with pytest.raises((KeyboardInterrupt, SystemExit)) as ended:
            write_for_ever(store)
        timer.join()
        assert isinstance(ended.value, KeyboardInterrupt) == (number == signal.SIGINT)
        assert time.monotonic() - started < 10  # SQLite waits 20 s for a lock
    assert {run.status for run in store.find(RunTags(stage="train"), newest=100, status=None)} == {"KILLED"}
    assert not list((store.home / "locks").glob("run-*"))


def interrupted(number: int, done: list[int]) -> None:
    with uninterrupted():
        os.kill(os.getpid(), number)
        time.sleep(0.01)
        done.append(number)


@pytest.mark.usefixtures("sigterm_exits")
def test_an_interruption_waits_for_the_end_of_the_block_and_handlers_are_put_back() -> None:
    handlers, done = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], list[int]()
    for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)):
        with pytest.raises(error):
            interrupted(number, done)
    assert done == [signal.SIGINT, signal.SIGTERM]
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_another_thread_may_write() -> None:
    store, runs = open_store(), []

    def write() -> None:
        with store.open_run("written", RunTags(stage="train")) as run:
            runs.append(run)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert store.get(runs[0]).status == "FINISHED"
