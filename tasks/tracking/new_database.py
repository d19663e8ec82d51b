"""Create MLflow's SQLite database in one step: the file is complete or does not exist.

MLflow creates its tables by dozens of migrations, each with several commits. A process that is killed between two
commits leaves a database that no later process can open. kgcal therefore runs the migrations in memory, writes the
result to a partial file in the database's folder, and gives the file its name as the last step.

The migrations take seconds and always give the same file. So an installation keeps the first one with its compiled
code, in `__pycache__`, and later databases are copies of it.
"""

import logging
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from importlib.util import cache_from_source
from pathlib import Path
from threading import Lock

from mlflow.version import VERSION
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import StaticPool

from tasks.workspace.sqlite_file import new_sqlite_file, remove_partial_files

QUIET_SECONDS = 5.0  # a running migration writes to the file more often
SEEDED_TABLES = frozenset({"alembic_version", "workspaces"})  # tables into which migrations insert rows
_MIGRATING = Lock()  # Alembic keeps the connection of the current migration in globals, which all threads share
log = logging.getLogger("kgcal")


def create_database(uri: str) -> None:
    """Create the SQLite database of an MLflow store, if `uri` names a file that does not exist.

    The complete file appears under its name in one step. Does nothing for other databases, for servers, and for a
    database that exists. There is one exception: a file with an unfinished migration and no experiment is renamed to
    NAME.unfinished, with a warning, and replaced.

    Raises OSError or SQLAlchemyError if the file cannot be written.
    """
    path = _database_file(uri)
    if path is None:
        return
    if is_unfinished(path):
        _set_aside(path)
    if path.exists():
        remove_partial_files(path)
    else:
        with new_sqlite_file(path) as partial:
            _write_database(partial)


def is_unfinished(path: Path) -> bool:
    """Return whether the file holds an unfinished migration and no data of a user.

    True only if the file has not changed for QUIET_SECONDS, and one of the following holds:

    * the file is empty;
    * it has MLflow's table `experiments`, only rows that migrations insert, and not MLflow's latest schema.

    A database that MLflow has opened is never unfinished: it has at least the row of the experiment `Default`. False if
    the file cannot be read.
    """
    try:
        status = path.stat()
        if time.time() - status.st_mtime < QUIET_SECONDS:
            return False
        if status.st_size == 0:
            return True
        with closing(sqlite3.connect(path, timeout=1)) as database:
            return _has_no_rows(database) and _schema_version(database) != _latest_schema_version()
    except (OSError, sqlite3.Error):
        return False


def _database_file(uri: str) -> Path | None:
    """Return the file that a SQLite URI names; None for other URIs, databases in memory and URIs with options."""
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):  # a server or a folder; or a mistake, which MLflow reports later
        return None
    named = url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:" and not url.query
    return Path(url.database) if named and url.database else None


def _write_database(file: Path) -> None:
    """Create a SQLite file with MLflow's latest schema. The file must not exist yet."""
    first = _first_database()
    if first.exists():
        shutil.copyfile(first, file)
        return
    _migrate(file)
    with suppress(OSError), new_sqlite_file(first) as partial:  # OSError: this user may not write there
        shutil.copyfile(file, partial)


def _first_database() -> Path:
    """Return the file of which databases are copies. Each version of MLflow has a schema of its own."""
    return Path(cache_from_source(__file__)).with_name(f"mlflow-{VERSION}.db")


def _migrate(file: Path) -> None:
    """Create a SQLite file by MLflow's migrations. The file must not exist yet."""
    from mlflow.store.db.utils import _initialize_tables  # slow to load, and needed only once per store

    # StaticPool keeps one connection open: a database in memory exists only as long as its connection
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        with _MIGRATING:
            _initialize_tables(engine)  # type: ignore[no-untyped-call]
        with engine.connect() as connection:
            connection.exec_driver_sql("VACUUM INTO ?", (str(file),))
    finally:
        engine.dispose()


def _set_aside(path: Path) -> None:
    if path.stat().st_size == 0:
        path.unlink()
        return
    kept = path.with_name(f"{path.name}.unfinished")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.unfinished-{number}")
    path.rename(kept)
    log.warning(
        "the creation of the MLflow database %s was interrupted: it holds no runs, is renamed to %s, and a new "
        "database is created",
        path,
        kept.name,
    )


def _has_no_rows(database: sqlite3.Connection) -> bool:
    """Return whether the database has MLflow's tables but no rows that a user's work inserted."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "experiments" not in tables:
        return False
    filled = (database.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for name in _user_tables(tables))  # noqa: S608
    return not any(filled)


def _user_tables(tables: set[str]) -> list[str]:
    """Return the tables that hold only what users created, so that a row in one of them means that the store is in use.

    `experiments` comes first because it nearly always answers the question.
    """
    names = {name for name in tables - SEEDED_TABLES if not name.startswith("sqlite_")}
    return sorted(names, key=lambda name: (name != "experiments", name))


def _schema_version(database: sqlite3.Connection) -> str | None:
    try:
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:  # the first migration has not begun
        return None
    return str(row[0]) if row else None


def _latest_schema_version() -> str:
    from mlflow.store.db.utils import _get_latest_schema_revision

    return str(_get_latest_schema_revision())  # type: ignore[no-untyped-call]
