"""Kill processes while they create the MLflow store, and open the store again after each kill.

`python -m tests.stages.interrupted_creation FOLDER KILLS` loads the imports once and forks for each store, so that
a kill costs about a second. KILLS processes are killed at moments spread over the whole creation, and KILLS more within
the milliseconds in which the database is written to the disk. Prints one line of JSON: for each kill its moment in
seconds, whether the process was still running, whether the database existed, and the next run's error ("" = none) and
files.
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

from tasks.tracking.store import Store


def fork_and_open(home: Path, log: Path) -> int:
    """Open the home's store in a process of its own and create a run in it; return the process id."""
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


def wait_for_a_database_file(home: Path) -> None:
    """Return when there is a database file in the home, complete or partial."""
    end = time.monotonic() + 60
    while not any("mlflow.db" in path.name for path in home.iterdir()):
        assert time.monotonic() < end, "no database file after 60 seconds"
        time.sleep(0.0002)


def kill_after(seconds: float, home: Path, written: bool) -> dict[str, Any]:
    """Kill the creation of a store after that many seconds, and open the store again.

    written  count the seconds from the first byte on the disk, not from the start of the process
    """
    home.mkdir()
    child = fork_and_open(home, home / "killed.log")
    if written:
        wait_for_a_database_file(home)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    database_existed = (home / "mlflow.db").exists()
    log = home.with_suffix(".log")
    _, again = os.waitpid(fork_and_open(home, log), 0)
    return {
        "seconds": seconds,
        "killed": os.WIFSIGNALED(status),
        "database_existed": database_existed,
        "error": "" if again == 0 else log.read_text(),
        "files": sorted(path.name for path in home.iterdir() if path.suffix not in (".log", ".lock")),
    }


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    duration = seconds_undisturbed(folder / "undisturbed")
    moments = [(duration * number / kills, False) for number in range(kills)]
    moments += [(0.003 * number, True) for number in range(kills)]
    homes = [folder / f"home{number}" for number in range(len(moments))]
    results = [kill_after(seconds, home, written) for (seconds, written), home in zip(moments, homes, strict=True)]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
