"""Create MLflow's SQLite database in one step: the file is complete or does not exist.

MLflow creates its tables by dozens of migrations, each with several commits. A process that is killed between two
commits leaves a database that no later process can open. kgcal therefore runs the migrations in memory, writes the
result to a partial file in the database's folder, and gives the file its name as the last step.

The migrations take seconds and always give the same file. So an installation keeps the first one with its compiled
code, in `__pycache__`, and later databases are copies of it.
"""

import shutil
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from threading import Lock

from tasks.workspace.sqlite_file import new_sqlite_file, remove_partial_files

_MIGRATING = Lock()  # Alembic keeps the connection of the current migration in globals, which all threads share


def create_database(uri: str) -> None:
    """Create the SQLite database of an MLflow store, if `uri` names a file that does not exist.

    The complete file appears under its name in one step. Does nothing for other databases, for servers, and for a
    database that exists.

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
    first = _first_database()
    if first.exists():
        shutil.copyfile(first, file)
        return
    _migrate(file)
    with suppress(OSError), new_sqlite_file(first) as partial:  # OSError: this user may not write there
        shutil.copyfile(file, partial)


def _first_database() -> Path:
    """Return the file of which databases are copies. Each version of MLflow has a schema of its own."""
    from mlflow.version import VERSION

    return Path(cache_from_source(__file__)).with_name(f"mlflow-{VERSION}.db")


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
