"""What a killed process leaves: open runs, temporary folders, unfinished output files. Later processes remove it."""

import atexit
import glob
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psutil
from filelock import FileLock, Timeout

from tasks.workspace.settings import ensure_home

ALIVE = "alive.lock"  # the file in the folder of a process that the process locks until it ends
OUTPUT = ".output"  # ending of a file with the path of an output that the process writes


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield an empty folder in KGCAL_HOME, and remove it after the block. Raises InputError as `ensure_home` does."""
    with TemporaryDirectory(dir=_own_folder(ensure_home(), os.getpid())) as name:
        yield Path(name)


def note_output(path: Path) -> None:
    """Note that this process writes an output file, so that its unfinished copy is removed if the process is killed."""
    note = _own_folder(ensure_home(), os.getpid()) / f"{uuid4().hex}{OUTPUT}"
    note.write_bytes(os.fsencode(path.absolute()))


def sweep() -> None:
    """Remove what processes with this home have left that have ended."""
    with _changes(ensure_home()):
        for folder in (ensure_home() / "tmp").glob("*/"):
            try:
                with FileLock(folder / ALIVE, timeout=0):
                    _clear(folder)
            except Timeout:
                continue


def run_lock(home: Path, run_id: str) -> FileLock:
    """Return the lock that a process holds while it has the run open."""
    return FileLock(home / "locks" / f"run-{run_id}.lock", timeout=0)


def dead_runs(home: Path, run_ids: Collection[str]) -> Iterator[str]:
    """Yield those of the runs that no process has open, and remove the locks that dead processes have left."""
    left = {path.stem.removeprefix("run-") for path in (home / "locks").glob("run-*.lock")}
    for run_id in {*run_ids, *left}:
        lock = run_lock(home, run_id)
        try:
            with lock:
                if run_id in run_ids:
                    yield run_id
        except Timeout:
            continue
        Path(lock.lock_file).unlink(missing_ok=True)


def remove_partial_files(path: Path) -> None:
    """Remove the unfinished copies of `path`, .NAME.PROCESS.partial, of processes that have ended."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial*"):
        process = partial.name.removeprefix(f".{path.name}.").partition(".")[0]
        if not (process.isdecimal() and psutil.pid_exists(int(process))):
            partial.unlink(missing_ok=True)


@cache
def _own_folder(home: Path, process: int) -> Path:
    """Create the folder of this process, and lock it until the process ends."""
    folder = home / "tmp" / f"{process}-{uuid4().hex[:8]}"
    with _changes(home):
        folder.mkdir(parents=True)
        alive = FileLock(folder / ALIVE)
        alive.acquire()

    def remove(process: int = process) -> None:
        if os.getpid() == process:  # a fork has the same exit handlers
            _clear(folder)
            alive.release()

    atexit.register(remove)
    return folder


def _changes(home: Path) -> FileLock:
    """Return the lock that is held while the folder of a process is created or removed."""
    return FileLock(home / "locks" / "tmp.lock")


def _clear(folder: Path) -> None:
    for note in folder.glob(f"*{OUTPUT}"):
        remove_partial_files(Path(os.fsdecode(note.read_bytes())))
    shutil.rmtree(folder, ignore_errors=True)
