"""The connection to an MLflow store. A process opens it once; the store is created if it does not exist."""

import hashlib
import logging
import socket

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from kgcore.errors import InputError, first_line
from tasks.tracking.new_database import create_database
from tasks.tracking.places import check_artifacts, check_place, check_store, hint, is_database
from tasks.workspace.settings import artifact_place, ensure_home, experiment_name, masked, project_run_id

logging.getLogger("mlflow").setLevel(logging.WARNING)
_MISSING_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


class Connection:
    """An open tracking store, and the experiment for new runs.

    uri            the address of the store
    place          the address with *** in place of the password, for messages
    home           the folder KGCAL_HOME
    owner          hash of the host name and `home`. It marks the runs that processes with this home have opened
    database       whether the store is a database, not a server or a folder
    client         MLflow's client
    experiment_id  the experiment of new runs
    """

    def __init__(self, uri: str) -> None:
        """Open the store; create it if it does not exist. Raises InputError if that fails."""
        self.uri, self.place, self.home = uri, masked(uri), ensure_home()
        self.owner = hashlib.sha256(f"{socket.gethostname()}:{self.home}".encode()).hexdigest()[:16]
        self.database = is_database(uri)
        check_store(uri)
        try:
            with FileLock(self.home / "store.lock"):  # if two processes open a new store, one creates the tables
                create_database(uri)
                self.client = MlflowClient(tracking_uri=uri)
                self.experiment_id = self._experiment()
        except (MlflowException, SQLAlchemyError, OSError) as error:
            raise InputError(f"the MLflow store {self.place} cannot be opened: {masked(first_line(error))}") from error

    def _experiment(self) -> str:
        if (run_id := project_run_id()) is not None:
            return str(self._run(run_id).info.experiment_id)
        found = self.client.get_experiment_by_name(experiment_name())
        if found is not None:
            if found.lifecycle_stage != "active":
                raise InputError(
                    f"the MLflow experiment {found.name} is deleted: restore it, or set "
                    "MLFLOW_EXPERIMENT_NAME to another name"
                )
            if self.database:
                check_place(str(found.artifact_location))
            return str(found.experiment_id)
        place = artifact_place() if self.database else None  # a server chooses its own artifact storage
        if place:
            check_artifacts(place)
        kind = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens the page of runs and models
        return str(self.client.create_experiment(experiment_name(), artifact_location=place, tags=kind))

    def _run(self, run_id: str) -> Run:
        """Return the MLflow run of that id. Raises InputError if it does not exist or is deleted."""
        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code not in _MISSING_RUN:
                raise self.unreachable(error) from error
            raise InputError(f"the run {run_id!r} does not exist in {self.place}{hint(self.uri)}") from None
        if run.info.lifecycle_stage != "active":
            raise InputError(f"the MLflow run {run_id} is deleted: restore it, or use another run")
        return run

    def unreachable(self, error: Exception) -> InputError:
        """Return the InputError for a store that does not answer."""
        return InputError(f"the MLflow store {self.place} does not answer: {masked(first_line(error))}")
