"""The settings that the user makes with environment variables, and the folder KGCAL_HOME with its data sets.

A killed process leaves open runs, temporary folders and unfinished output files. Later processes remove them: `sweep`.
"""

import atexit
import getpass
import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psutil
from filelock import FileLock, Timeout

from kgcore.errors import InputError
from kgcore.registries import DATASETS

if TYPE_CHECKING:  # pandas takes half a second to load
    from kgcore.data.datasets.base import DatasetSpec

ALIVE = "alive.lock"  # the file in the folder of a process that the process locks until it ends
OUTPUT = ".output"  # ending of a file with the path of an output that the process writes
# the folders that kgcal makes in its home
FOLDERS = frozenset(
    ("artifacts", "checkpoints", "datasets", "locks", "prefect", "reports", "services", "tmp", "tuning")
)


def home() -> Path:
    """Return KGCAL_HOME: the folder of mlflow.db, artifacts, datasets, checkpoints and reports.

    The default is `.kgcal` in the checkout of kgcal, or in the user's home folder if there is no checkout. Raises
    InputError for the folder of an unknown user, and for a path with a question mark, which ends the path of a file in
    the address of a database.
    """
    checkout = Path(__file__).resolve().parents[2]
    folder = (checkout if (checkout / "pyproject.toml").is_file() else Path.home()) / ".kgcal"
    if value := os.environ.get("KGCAL_HOME"):
        folder = Path(expanduser(value)).resolve()
        if expanduser(value)[0] == "~":
            raise InputError(f"KGCAL_HOME is {value}: there is no such user")
    if "?" in str(folder):
        raise InputError(f"KGCAL_HOME is {folder}: choose a folder whose path has no question mark")
    return folder


def is_kept(path: Path) -> bool:
    """Return whether a full path is that of a file which `home` keeps: its database, a lock, or one in its folders."""
    root = home().resolve()
    if not path.is_relative_to(root) or path == root:
        return False
    first = path.relative_to(root).parts[0]
    return first in FOLDERS or first.endswith(".lock") or first.startswith(own_database().name)


def caller() -> tuple[str, str]:
    """Return the user's name, and the git commit of the working folder; '' for one that does not exist."""
    user = commit = ""
    with suppress(KeyError, OSError):
        user = getpass.getuser()
    if git := shutil.which("git"):
        asked = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S603
        commit = asked.stdout.strip() if asked.returncode == 0 else ""
    return user, commit


def own_database() -> Path:
    """Return the SQLite file in the home, which is the MLflow store if no other one is named."""
    return home() / "mlflow.db"


def own_uri() -> str:
    """Return the MLflow URI of the SQLite file in the home."""
    return f"sqlite:///{own_database()}"


def tracking_uri() -> str:
    """Return MLFLOW_TRACKING_URI, by default the SQLite file in the home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or own_uri()


def mlflow_server() -> str | None:
    """Return the address of the MLflow server that MLFLOW_TRACKING_URI names; None if it names a database."""
    uri = tracking_uri()
    return uri.removesuffix("/") if uri.startswith(("http://", "https://")) else None


def prefect_database() -> str:
    """Return the database URL for the Prefect server of `kgcal up`; '' if none is set: a SQLite file in the home.

    Prefect reads the URL from two variables. PREFECT_SERVER_DATABASE_CONNECTION_URL is the newer name.
    """
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    return next((value for name in names if (value := os.environ.get(name))), "")


def uses_prefect() -> bool:
    """Return whether work runs as Prefect flows: unless KGCAL_PREFECT is `off`, for scripts and tests.

    Raises InputError for another value than on and off.
    """
    value = os.environ.get("KGCAL_PREFECT") or "on"
    if value not in ("on", "off"):
        raise InputError(f"KGCAL_PREFECT is {value!r}: it must be on or off")
    return value == "on"


def named_experiment() -> str | None:
    """Return MLFLOW_EXPERIMENT_NAME, the experiment of all pipelines; None: each data set has its own."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or None


def experiment_name() -> str:
    """Return the name of the experiment of runs that no other one is for; others have names that begin with it."""
    return named_experiment() or "kgcal"


def wants_system_metrics() -> bool:
    """Return whether MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is true."""
    return os.environ.get("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "").lower() in ("true", "1")


def project_run_id() -> str | None:
    """Return MLFLOW_RUN_ID, the run that `mlflow run` has opened for this process; None outside `mlflow run`."""
    return os.environ.get("MLFLOW_RUN_ID") or None


def mirror() -> str | None:
    """Return KGCAL_MIRROR, a folder or URL with the data sets' archives; None: use their public hosts."""
    return os.environ.get("KGCAL_MIRROR") or None


def checkpoint_seconds() -> float:
    """Return KGCAL_CHECKPOINT_SECONDS, the shortest time between two checkpoints of a training; default 10.

    Raises InputError if it is not a number.
    """
    return _seconds("KGCAL_CHECKPOINT_SECONDS", "10")


def outage_seconds() -> float:
    """Return KGCAL_OUTAGE_SECONDS, how long work waits for an MLflow store that does not answer; default 900.

    Raises InputError if it is not a number.
    """
    return _seconds("KGCAL_OUTAGE_SECONDS", "900")


def _seconds(name: str, default: str) -> float:
    text = os.environ.get(name, default)
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} is {text!r}: it must be a number of seconds") from None


def named_artifacts() -> str | None:
    """Return KGCAL_ARTIFACTS as a URI, of a folder or of storage such as s3://bucket/path; None if it is not set."""
    value = os.environ.get("KGCAL_ARTIFACTS")
    if not value:
        return None
    return value.rstrip("/") if ":" in value else Path(expanduser(value)).resolve().as_uri()


def artifact_place() -> str:
    """Return the URI under which new experiments keep artifacts: KGCAL_ARTIFACTS, by default `artifacts` in the home.

    An MLflow server that MLFLOW_TRACKING_URI names does not use it: such a server has its own artifact storage.
    """
    return named_artifacts() or (home() / "artifacts").as_uri()


def ensure_home() -> Path:
    """Return the home, and create it if it does not exist. Raises InputError if it cannot be written to."""
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise InputError(f"KGCAL_HOME {folder} cannot be written to: {error.strerror}") from error


def catalogue() -> "list[tuple[DatasetSpec, tuple[str, ...]]]":
    """Return every registered data set, with the names of its folders in the home; (): not downloaded or generated.

    Reads folder names, downloads nothing.
    """
    entries = []
    for name in DATASETS.names():
        spec = DATASETS.get(name)
        folders = sorted(folder.name for folder in (home() / "datasets").glob(f"{name}*") if folder.is_dir())
        here = (folder for folder in folders if folder == name or (spec.generate and folder.startswith(f"{name}-")))
        entries.append((spec, tuple(here)))
    return entries


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield an empty folder in KGCAL_HOME, and remove it after the block. Raises InputError as `ensure_home` does."""
    with tempfile.TemporaryDirectory(dir=_own_folder(ensure_home(), os.getpid())) as name:
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
    return FileLock(home / "tmp.lock")


def _clear(folder: Path) -> None:
    for note in folder.glob(f"*{OUTPUT}"):
        remove_partial_files(Path(os.fsdecode(note.read_bytes())))
    shutil.rmtree(folder, ignore_errors=True)
