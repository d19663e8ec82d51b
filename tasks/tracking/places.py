"""Check the databases and the artifact storage that the environment names, before a computation starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kgcore.errors import InputError, first_line
from tasks.workspace.settings import experiment_name, masked, named_artifacts, own_uri, project_run_id

CONNECT_SECONDS = 10


def is_database(uri: str) -> bool:
    """Return whether `uri` names a database. Other MLflow stores are servers and folders of files."""
    from mlflow.store.db.db_types import DATABASE_ENGINES

    return uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES


def check_database(uri: str, what: str) -> None:
    """Check that a database server accepts a connection. Does nothing for SQLite.

    what  how the error message calls the database, for example `the MLflow store`

    Without this check, MLflow would try to connect for an hour, and Prefect would report only that its server stopped.

    Raises InputError if the database cannot be opened. The message does not contain the password.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    try:
        url = make_url(uri)
        if url.get_backend_name() == "sqlite":
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


def hint(uri: str) -> str:
    """Return a hint to add to the error that a run is not in the store `uri`; '' if no hint applies.

    Without MLFLOW_TRACKING_URI, `mlflow run` opens its own store, which does not contain kgcal's runs.
    """
    if project_run_id() is None or uri == own_uri() or uri.startswith("http"):
        return ""
    return f": to use kgcal's runs, `export MLFLOW_TRACKING_URI={own_uri()}` before `mlflow run`"


def check_place(place: str) -> None:
    """Check the folder or URI where an existing experiment keeps its artifacts. An experiment never changes it.

    Raises InputError if KGCAL_ARTIFACTS names another folder or URI, or if artifacts cannot be kept there.
    """
    if (named := named_artifacts()) and named != place:
        raise InputError(
            f"the MLflow experiment {experiment_name()} keeps its artifacts in {masked(place)}, but "
            f"KGCAL_ARTIFACTS is {masked(named)}: unset KGCAL_ARTIFACTS, or name another experiment "
            "in MLFLOW_EXPERIMENT_NAME"
        )
    check_artifacts(place)


def check_artifacts(place: str) -> None:
    """Check that artifacts can be kept in `place`, by listing a folder there.

    A local folder is not checked, because it is created when it is needed.

    Raises InputError if the folder cannot be listed, for example because a bucket, library or permission is missing.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if not place.startswith("file:"):
        with input_error(f"artifacts cannot be kept in {masked(place)}"):
            get_artifact_repository(place).list_artifacts("kgcal")


@contextmanager
def input_error(sentence: str) -> Iterator[None]:
    """Replace any error in the block with an InputError, whose message is `sentence`, a colon and the reason."""
    try:
        yield
    except Exception as error:  # each kind of storage raises its own types of errors
        missing = " (for S3: pip install 'kgcal[s3]')" if isinstance(error, ImportError) else ""
        raise InputError(f"{sentence}: {masked(first_line(error))}{missing}") from error
