"""Kill processes while they create the MLflow store, and open the store again after each kill.

`python -m tests.stages.interrupted_creation FOLDER` does the imports once and forks for each store, so that a kill
costs about a second. Ten processes are killed at moments spread over the whole creation, six while the database is
written to the disk, and four after the file has its name. Prints one line of JSON: for each kill its moment, whether
the process was still running, whether the database existed, and the next run's error ("" = none) and files.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import mlflow.store.tracking.sqlalchemy_store  # noqa: F401 (loaded before the forks, as MLflow loads it late)

from tasks.tracking import connection
from tasks.tracking.store import Store


def fork_and_open(home: Path, log: Path) -> int:
    """Open the home's store in a new process and create a run in it; return the process id."""
    if child := os.fork():
        return child
    status = 1
    try:
        os.environ["KGCAL_HOME"] = str(home)
        store = Store(f"sqlite:///{home}/mlflow.db")
        store.client.create_run(store.experiment_id)
        status = 0
    except BaseException:
        log.write_text(traceback.format_exc().strip().splitlines()[-1])
    finally:
        os._exit(status)


def seconds_undisturbed(home: Path) -> float:
    """Return how long it takes to create a store and a run."""
    home.mkdir()
    start = time.perf_counter()
    _, status = os.waitpid(fork_and_open(home, home / "log"), 0)
    assert status == 0, (home / "log").read_text()
    return time.perf_counter() - start


def wait_for_file(home: Path, pattern: str) -> None:
    """Wait until the home has a file that matches the pattern."""
    end = time.monotonic() + 60
    while not any(home.glob(pattern)):
        assert time.monotonic() < end, f"no {pattern} after 60 seconds"
        time.sleep(0.0002)


def kill_after(seconds: float, home: Path, pattern: str) -> dict[str, Any]:
    """Kill the creation of a store, and open the store again.

    seconds  time until the kill, from the start of the process or from the first file that matches the pattern
    """
    home.mkdir()
    child = fork_and_open(home, home / "killed.log")
    if pattern:
        wait_for_file(home, pattern)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    database_existed = (home / "mlflow.db").exists()
    log = home.with_suffix(".log")
    _, again = os.waitpid(fork_and_open(home, log), 0)
    return {
        "after": pattern or "start",
        "seconds": seconds,
        "killed": os.WIFSIGNALED(status),
        "database_existed": database_existed,
        "error": "" if again == 0 else log.read_text(),
        "files": sorted(path.name for path in home.iterdir() if path.suffix not in (".log", ".lock")),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    connection._write_database = connection._migrate  # not a copy, which would be complete at once
    duration = seconds_undisturbed(folder / "undisturbed")
    moments = [(duration * number / 10, "") for number in range(10)]
    moments += [(0.002 * number, "*mlflow.db*") for number in range(6)]
    moments += [(0.005 * number, "mlflow.db") for number in range(4)]
    homes = [folder / f"home{number}" for number in range(len(moments))]
    results = [kill_after(seconds, home, pattern) for (seconds, pattern), home in zip(moments, homes, strict=True)]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
