"""The connection to an MLflow store, which is created if it does not exist, and the patience of its requests."""

import logging
import os
import re
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from filelock import FileLock

from kgcore.errors import InputError, OutageError, first_line, masked
from tasks.tracking.experiments import Experiments, is_database
from tasks.tracking.record import patient
from tasks.workspace.settings import (
    ensure_home,
    home,
    named_artifacts,
    outage_seconds,
    own_database,
    own_uri,
    project_run_id,
    remove_partial_files,
    sweep,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

T = TypeVar("T")
PLACES = {"experiments": "artifact_location", "runs": "artifact_uri", "logged_models": "artifact_location"}
PLACES |= {"model_versions": "storage_location"}  # table -> the column of MLflow's that has a full path of artifacts
CONNECT_SECONDS = 10  # of a connection, and the least time that a server has for an answer
ANSWER_SECONDS = 120  # the most time that a server has for an answer: it may store a large file meanwhile
BRIEF = 0.3  # seconds: the patience of work that need not wait
START_SECONDS = 3.0  # the patience of a command at its start
LONGEST_PAUSE = 10.0  # seconds between two requests to a store that does not answer
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"  # MLflow's variable: the seconds for an answer
IS_STATED = TIMEOUT in os.environ  # by the user
# how MLflow, and the libraries that MLflow calls, say that a server does not answer
AWAY = re.compile(
    r"API request to \S+ failed with|Connection ?(aborted|broken|Error|refused)|IncompleteRead"
    r"|onnection to server at|server closed the connection|terminating connection"
)
log = logging.getLogger("kgcal")
COMPANIONS = ("-journal", "-wal", "-shm")  # suffixes of the files that SQLite adds to an open database
_MIGRATING = threading.Lock()  # Alembic keeps the connection of the current migration in globals of all threads


class Patience:
    """A way to make requests to one store.

    uri      address of the store
    place    the address with *** in place of the password, for messages
    seconds  how long a request is made again while the store is away; None: `outage_seconds`
    """

    def __init__(self, uri: str, seconds: float | None = None) -> None:
        self.uri, self.place, self.seconds = uri, masked(uri), seconds
        self._is_server = uri.startswith(("http://", "https://"))  # it ends its transactions itself

    def __call__(self, request: Callable[[], T], made: Callable[[], T | None] = lambda: None) -> T:
        """Return the value of a request.

        made  returns what an earlier attempt has made if only its answer was lost; otherwise None

        Raises OutageError if the store is away for too long.
        """
        seconds = outage_seconds() if self.seconds is None else self.seconds
        start, pause, told = time.monotonic(), 0.0, False
        while True:
            try:
                with answered_within(seconds) if self._is_server else uninterrupted():
                    value = made() if pause else None
                    value = request() if value is None else value
                if told:
                    log.info("the MLflow store %s answers again", self.place)
                return value
            except Exception as error:
                if not AWAY.search(str(error)):
                    raise
                reason = error
            waited = time.monotonic() - start
            if waited >= seconds:
                raise OutageError(
                    f"the MLflow store {self.place} has not answered for {seconds:.0f} seconds, "
                    f"{masked(first_line(reason))}: nothing is lost, start it and run the same command again, which "
                    "re-uses finished stages and resumes a training"
                ) from reason
            if waited > 1 and not told:  # a connection that was closed while it was not used is opened at once
                log.warning("the MLflow store %s does not answer: waiting at most %.0f s", self.place, seconds)
                told = True
            pause = min(2 * pause or 0.1, LONGEST_PAUSE)
            time.sleep(min(pause, seconds - waited))


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """End a request to an MLflow server that does not answer, after half of the patience of so many seconds."""
    if not IS_STATED:
        os.environ[TIMEOUT] = str(int(min(max(seconds / 2, CONNECT_SECONDS), ANSWER_SECONDS)))
    try:
        yield
    finally:
        if not IS_STATED:
            os.environ.pop(TIMEOUT, None)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the block. Only the main thread is interrupted by them.

    If a handler raises an error inside a transaction of SQLAlchemy, the transaction stays open, because MLflow rolls
    back only for an `Exception`. The database is then locked as long as the error exists, also for its handlers.
    """
    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    before, received = [(number, signal.getsignal(number)) for number in numbers], list[int]()
    try:
        for number in numbers:
            signal.signal(number, lambda interrupt, frame: received.append(interrupt))
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        for interrupt in received:
            signal.raise_signal(interrupt)


def connect(uri: str) -> "tuple[MlflowClient, Experiments]":
    """Open the store at an address; create it if it does not exist. Return its client, and its experiments.

    What killed processes have left in the home is removed.

    Raises InputError if the store cannot be opened.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    check_store(uri)
    sweep()
    try:
        with FileLock(ensure_home() / "store.lock"):  # if two processes open a new store, one creates the tables
            create_database(uri)
            client = MlflowClient(tracking_uri=uri)
            if uri == own_uri() and not named_artifacts():
                follow_home()
            return client, Experiments(patient(client, Patience(uri, START_SECONDS)), uri)
    except InputError:
        raise
    except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError, ValueError, OutageError) as error:
        reason = first_line(error.__cause__ or error)
        raise InputError(f"the MLflow store {masked(uri)} cannot be opened: {masked(reason)}") from error


def follow_home() -> None:
    """Write the place of the home into its database, if the home was moved, copied or restored since its last use.

    MLflow stores full paths: with old ones, models would be lost, and new ones written to the old place. An experiment
    is followed if the home has the artifacts of one of its runs, or if it has no runs yet.

    Raises InputError if these artifacts are those of another home, which still has its database.
    """
    place = (home() / "artifacts").as_uri()
    with closing(sqlite3.connect(own_database(), timeout=20)) as database, database:
        others = database.execute(
            "SELECT experiment_id, artifact_location FROM experiments WHERE artifact_location LIKE 'file:%/artifacts' "
            "AND artifact_location != ?",
            (place,),
        ).fetchall()
        for experiment, old in others:
            runs = database.execute("SELECT run_uuid FROM runs WHERE experiment_id = ?", (experiment,)).fetchall()
            if runs and not any((home() / "artifacts" / run).is_dir() for (run,) in runs):
                other = Path(url2pathname(urlsplit(old).path)).parent
                if (other / own_database().name).exists():
                    raise InputError(
                        f"{home()} is a copy of the home {other} without its artifacts: copy the folder, too"
                    )
                continue
            for table, column in PLACES.items():
                database.execute(
                    f"UPDATE {table} SET {column} = ?1 || substr({column}, length(?2) + 1) "  # noqa: S608  # constants
                    f"WHERE {column} = ?2 OR substr({column}, 1, length(?2) + 1) = ?2 || '/'",
                    (place, old),
                )
            log.info("the home has moved to %s: MLflow's store now has this place", home())


def check_database(uri: str, what: str) -> None:
    """Check that a database server accepts a connection. For SQLite, check that what has the name is a file.

    what  how the error message calls the database, for example `the MLflow store`

    Without this check, MLflow would try to connect for up to an hour, and Prefect would report only that its server
    stopped.

    Raises InputError if the database cannot be opened. The message does not contain the password.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    try:
        url = make_url(uri)
        if url.get_backend_name() == "sqlite":
            if url.database and os.path.exists(url.database) and not os.path.isfile(url.database):
                raise ValueError(f"{url.database} is not a file")
            return
        patience = {"connect_timeout": CONNECT_SECONDS} if url.get_backend_name() == "postgresql" else {}
        engine = create_engine(url, poolclass=NullPool, connect_args=patience)
        if engine.dialect.is_async:
            raise ValueError(f"{url.drivername} is an asynchronous driver: use a synchronous one")
        engine.connect().close()
    except ImportError as error:
        raise InputError(
            f"{what} {masked(uri)} cannot be opened: {first_line(error)} (for PostgreSQL: pip install "
            "'kgcal[postgres]')"
        ) from error
    except (SQLAlchemyError, ValueError) as error:
        raise InputError(f"{what} {masked(uri)} cannot be opened: {masked(first_line(error))}") from error


def check_store(uri: str) -> None:
    """Raise InputError if the MLflow store cannot be used.

    There are two such cases. The store is a database that refuses the connection. Or, inside `mlflow run`, `uri` is a
    relative path of a SQLite file that does not exist: `mlflow run` has changed the working folder, so it is probably
    not the file that the user meant.
    """
    file = uri.removeprefix("sqlite:///")
    if project_run_id() and uri.startswith("sqlite:") and not (os.path.isabs(file) or os.path.exists(file)):
        raise InputError(
            f"MLFLOW_TRACKING_URI={uri} has a relative path, and `mlflow run` changes to the project's "
            f"folder: use a full path, as in `export MLFLOW_TRACKING_URI={own_uri()}`"
        )
    if is_database(uri):
        check_database(uri, "the MLflow store")


def create_database(uri: str) -> None:
    """Create the SQLite database of an MLflow store, if `uri` names a file that does not exist; else do nothing.

    MLflow creates its tables by dozens of migrations, each with several commits. A process that is killed between two
    commits leaves a database that no later process can open. So the migrations run in memory, and the complete file
    appears under its name in one step. They take seconds and always give the same file. So an installation keeps the
    first one with its compiled code, in `__pycache__`, and later databases are copies of it.

    Raises OSError or SQLAlchemyError if the file cannot be written.
    """
    path = _database_file(uri)
    if path is None:
        return
    if path.exists():
        remove_partial_files(path)
    else:
        with new_sqlite_file(path) as partial:
            _write_database(partial)


def _database_file(uri: str) -> Path | None:
    """Return the file that a SQLite URI names; None for other URIs, databases in memory and URIs with options."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):  # a server or a folder; or a mistake, which MLflow reports later
        return None
    named = url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:" and not url.query
    return Path(url.database) if named and url.database else None


def _write_database(file: Path) -> None:
    """Create a SQLite file with MLflow's latest schema. The file must not exist yet."""
    from mlflow.version import VERSION

    write_or_copy(file, f"mlflow-{VERSION}.db", _migrate)


def write_or_copy(file: Path, name: str, migrate: Callable[[Path], object]) -> None:
    """Create a SQLite file, as a copy of the first one of this installation. The file must not exist yet.

    name     of the first one, with the version of the library whose schema it has
    migrate  function that creates the file if there is no first one
    """
    first = _first_database(name)
    if first.exists():
        shutil.copyfile(first, file)
        return
    migrate(file)
    _complete(file)
    with suppress(OSError), new_sqlite_file(first) as partial:  # OSError: this user may not write there
        shutil.copyfile(file, partial)


def _first_database(name: str) -> Path:
    return Path(cache_from_source(__file__)).with_name(name)


def _migrate(file: Path) -> None:
    """Create a SQLite file by MLflow's migrations. The file must not exist yet."""
    from mlflow.store.db.utils import _initialize_tables
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    # StaticPool keeps one connection open: a database in memory exists only as long as its connection
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        with _MIGRATING:
            _initialize_tables(engine)  # type: ignore[no-untyped-call]
        with engine.connect() as connection:
            connection.exec_driver_sql("VACUUM INTO ?", (str(file),))
    finally:
        engine.dispose()


@contextmanager
def new_sqlite_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`. After the block, the file with this name gets the name `path`.

    If the block raises an error, the temporary file is removed and `path` is not created. If another program creates
    `path` during the block, that file is kept. Temporary files of processes that have ended are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        _complete(partial)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        _give_name(partial, path)
    finally:
        for companion in ("", *COMPANIONS):
            Path(f"{partial}{companion}").unlink(missing_ok=True)


def _complete(file: Path) -> None:
    """Write what SQLite keeps beside a file into the file."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _give_name(partial: Path, path: Path) -> None:
    if not path.exists():  # SQLite would apply the journal of a deleted database to the new one
        for companion in COMPANIONS:
            Path(f"{path}{companion}").unlink(missing_ok=True)
    try:
        os.link(partial, path)  # fails if the name exists, unlike a rename
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            partial.rename(path)
