"""The connection to an MLflow store, which is created if it does not exist."""

from typing import TYPE_CHECKING

from filelock import FileLock

from kgcore.errors import InputError, first_line
from tasks.tracking.new_database import create_database
from tasks.tracking.places import check_artifacts, check_place, check_store, hint, is_database
from tasks.workspace.settings import artifact_place, ensure_home, experiment_name, masked, project_run_id

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_MISSING_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


def connect(uri: str) -> "tuple[MlflowClient, str]":
    """Open the store at an address; create it if it does not exist. Return its client, and the experiment of new runs.

    Raises InputError if the store cannot be opened.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    check_store(uri)
    try:
        with FileLock(ensure_home() / "store.lock"):  # if two processes open a new store, one creates the tables
            create_database(uri)
            client = MlflowClient(tracking_uri=uri)
            return client, _experiment(client, uri)
    except (MlflowException, SQLAlchemyError, OSError) as error:
        raise InputError(f"the MLflow store {masked(uri)} cannot be opened: {masked(first_line(error))}") from error


def _experiment(client: "MlflowClient", uri: str) -> str:
    """Return the id of the experiment of new runs. It is created if it does not exist."""
    if (run_id := project_run_id()) is not None:
        return str(run_of(client, uri, run_id).info.experiment_id)
    found = client.get_experiment_by_name(experiment_name())
    if found is not None:
        if found.lifecycle_stage != "active":
            raise InputError(
                f"the MLflow experiment {found.name} is deleted: restore it, or set "
                "MLFLOW_EXPERIMENT_NAME to another name"
            )
        if is_database(uri):
            check_place(str(found.artifact_location))
        return str(found.experiment_id)
    place = artifact_place() if is_database(uri) else None  # a server chooses its own artifact storage
    if place:
        check_artifacts(place)
    kind = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens the page of runs and models
    return str(client.create_experiment(experiment_name(), artifact_location=place, tags=kind))


def run_of(client: "MlflowClient", uri: str, run_id: str) -> "Run":
    """Return the MLflow run of that id. Raises InputError if it does not exist or is deleted."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code not in _MISSING_RUN:
            raise unreachable(uri, error) from error
        raise InputError(f"the run {run_id!r} does not exist in {masked(uri)}{hint(uri)}") from None
    if run.info.lifecycle_stage != "active":
        raise InputError(f"the MLflow run {run_id} is deleted: restore it, or use another run")
    return run


def unreachable(uri: str, error: Exception) -> InputError:
    """Return the InputError for a store that does not answer."""
    return InputError(f"the MLflow store {masked(uri)} does not answer: {masked(first_line(error))}")
