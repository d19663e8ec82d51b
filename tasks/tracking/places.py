"""Whether what the environment names outside the home can be used, asked before anything is computed: databases and
artifact storage."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.db.db_types import DATABASE_ENGINES
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from kgcore.errors import InputError, first_line
from tasks.workspace.settings import experiment_name, masked, named_artifacts, own_uri, project_run_id

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


def check_store(uri: str) -> None:
    """Raise InputError for an MLflow store that cannot be used: a database that does not let us in, or, where
    `mlflow run` has opened a run, a file that is another one in every folder."""
    file = uri.removeprefix("sqlite:///")
    if project_run_id() and uri.startswith("sqlite:") and not (os.path.isabs(file) or os.path.exists(file)):
        raise InputError(
            f"MLFLOW_TRACKING_URI={uri} is another file in every folder, and `mlflow run` works in that of the "
            f"project: name it in full, as in `export MLFLOW_TRACKING_URI={own_uri()}`"
        )
    if is_database(uri):
        check_database(uri, "the MLflow store")


def hint(uri: str) -> str:
    """What to add to a sentence about a run that a store does not have, where `mlflow run` may have opened a store of
    its own because nobody told it of another."""
    if project_run_id() is None or uri == own_uri() or uri.startswith("http"):
        return ""
    return f": for what kgcal has run, `export MLFLOW_TRACKING_URI={own_uri()}` before `mlflow run`"


def check_place(place: str) -> None:
    """Raise InputError where the experiment's artifacts cannot go, or are to go elsewhere: it keeps its place."""
    if (named := named_artifacts()) and named != place:
        raise InputError(
            f"the MLflow experiment {experiment_name()} keeps its artifacts in {masked(place)}, KGCAL_ARTIFACTS "
            f"says {masked(named)}: unset it, or name another experiment in MLFLOW_EXPERIMENT_NAME"
        )
    check_artifacts(place)


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
