"""Whether what the environment names outside the home can be used, asked before anything is computed: databases and
artifact storage."""

from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.db.db_types import DATABASE_ENGINES
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from kgcore.errors import InputError, first_line
from tasks.settings import masked

TIMEOUT = 10  # seconds that a database server may take to let us in


def is_database(uri: str) -> bool:
    """Whether that MLflow store is a database that is opened directly, and no server or folder."""
    return uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES


def check_database(uri: str, what: str) -> None:
    """Connect to a database server once: MLflow would go on trying for an hour, and Prefect only say that it stopped.

    what  whose it is, for the sentence

    Raises InputError, without the password, where it cannot be used.
    """
    try:
        url = make_url(uri)
        if url.get_backend_name() == "sqlite":
            return
        patience = {"connect_timeout": TIMEOUT} if url.get_backend_name() == "postgresql" else {}
        engine = create_engine(url, poolclass=NullPool, connect_args=patience)
        if engine.dialect.is_async:
            raise ValueError(f"{url.drivername} is no driver for it")
        engine.connect().close()
    except ImportError as error:
        raise InputError(
            f"{what} {masked(uri)} cannot be opened: {first_line(error)} (for PostgreSQL: pip install "
            "'kgcal[postgres]')"
        ) from error
    except (SQLAlchemyError, ValueError) as error:
        raise InputError(f"{what} {masked(uri)} cannot be opened: {masked(first_line(error))}") from error


def check_artifacts(place: str) -> None:
    """Look into the place of the artifacts once. Raises InputError where that fails: a bucket that is not there, a
    missing library or right; a folder is made when it is needed."""
    if not place.startswith("file:"):
        with told(f"artifacts cannot be kept in {masked(place)}"):
            get_artifact_repository(place).list_artifacts("kgcal")


@contextmanager
def told(sentence: str) -> Iterator[None]:
    """Raise InputError, the sentence and the reason, for whatever goes wrong within."""
    try:
        yield
    except Exception as error:  # each kind of storage has errors of its own
        missing = " (for S3: pip install 'kgcal[s3]')" if isinstance(error, ImportError) else ""
        raise InputError(f"{sentence}: {masked(first_line(error))}{missing}") from error
