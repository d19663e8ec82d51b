"""The experiments of a store: one for each data set, one of decisions, each with a description that the UI shows."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from filelock import FileLock

from kgcore.errors import InputError, masked
from tasks.tracking.record import APPLY_SCORES, CALIBRATE_SCORES, WATCH_SCORES, RunTags, run_of
from tasks.workspace.resources import input_error
from tasks.workspace.settings import (
    artifact_place,
    ensure_home,
    experiment_name,
    named_artifacts,
    named_experiment,
    project_run_id,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

# the stages of runs that use a finished model; `comparison` and `survey` are about the candidates of a question
ASKED = ("predict", "comparison", "discover", "survey", "explain", "base-rate")
DECISIONS = frozenset([*ASKED, "promote", "exam", "watch", APPLY_SCORES, WATCH_SCORES])
KIND = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens the page of runs and models
BASE_NOTE = """kgcal has an experiment for each data set, such as `{name}/family`, and `{name}-decisions`.
Here are the runs of no data set: reproductions of the paper, and calibrators of scores.

* Measurements of all calibrators: filter by ``{measurements}``, sorted by `brier`, lowest first."""
PIPELINES_NOTE = """Pipelines of kgcal, each with its stages nested below it, searches and audits.
Predictions, promotions and checks are in the experiment `{name}-decisions`.

* Compare calibrators: `kgcal compare --dataset NAME` prints a link to those that were measured on the same triples.
* Pipelines: filter by ``{pipelines}``. If there are several data sets, add `and params.dataset = 'NAME'`.
* Measurements of all calibrators: filter by ``{measurements}``, sorted by `brier`, lowest first."""
DECISIONS_NOTE = """What was decided with the models of the experiment `{name}`: predictions, missing facts,
explanations, base rates, exams, promotions and checks of a champion.

* Decisions of a kind: filter by a stage, such as ``{promotes}``.
* Decisions of a data set: filter by ``{of_dataset}``."""


class Experiments:
    """The experiments of new runs. Earlier runs stay where they are, and are found in every experiment.

    base  id of the experiment of runs that no other one is for. If MLFLOW_EXPERIMENT_NAME names it, it has the
          pipelines of all data sets. Inside `mlflow run`, it is that of the project's run, and has all runs
    """

    def __init__(self, client: "MlflowClient", uri: str) -> None:
        """Open the base; create it if it does not exist.

        Raises InputError if it is deleted, or if its artifacts cannot be kept where it, or the environment, says.
        """
        self._ids: dict[str, str] = {}  # name -> id of the others
        if (run_id := project_run_id()) is not None:
            self.base = str(run_of(client, uri, run_id).info.experiment_id)
            return
        name = self._name = experiment_name()
        text = PIPELINES_NOTE if named_experiment() else BASE_NOTE
        base = _active(client, name)
        if base is not None:
            kept = str(base.artifact_location)  # an experiment never changes it
            if is_database(uri) and (named := named_artifacts()) and named != kept:
                raise InputError(
                    f"the MLflow experiment {name} keeps its artifacts in {masked(kept)}, but "
                    f"KGCAL_ARTIFACTS is {masked(named)}: unset KGCAL_ARTIFACTS, or name another experiment "
                    "in MLFLOW_EXPERIMENT_NAME"
                )
            if is_database(uri):
                check_artifacts(kept)
            self.base = str(base.experiment_id)
            for tag, note in _described(text, name).items():
                if tag not in base.tags:  # an earlier version has created it
                    client.set_experiment_tag(self.base, tag, note)
            return
        place = artifact_place() if is_database(uri) else None  # a server chooses its own artifact storage
        if place:
            check_artifacts(place)
        self.base = _created(client, name, place, _described(text, name))

    def of(self, tags: RunTags, client: "MlflowClient", experiment_of: Callable[[str], str]) -> str:
        """Return the id of the experiment of a new run.

        It is that of its parent, that of decisions, or that of the data set of the run or of its inputs.

        experiment_of  gives the experiment of a run

        Raises InputError if the experiment is deleted.
        """
        if tags.parent:
            return experiment_of(tags.parent)
        if project_run_id() is not None:
            return self.base
        if tags.stage in DECISIONS:
            return self._beside(f"{self._name}-decisions", client, DECISIONS_NOTE)
        if named_experiment() or tags.stage == CALIBRATE_SCORES:
            return self.base
        if tags.inputs:
            return experiment_of(next(iter(tags.inputs.values())))
        return self._beside(f"{self._name}/{tags.dataset}", client, PIPELINES_NOTE) if tags.dataset else self.base

    def _beside(self, name: str, client: "MlflowClient", note: str) -> str:
        """Return the id of the experiment of that name. It is created for its first run.

        It keeps its artifacts where the base does.
        """
        if name not in self._ids:
            with FileLock(ensure_home() / "store.lock"):
                if known := _active(client, name):
                    self._ids[name] = str(known.experiment_id)
                else:
                    place = client.get_experiment(self.base).artifact_location
                    self._ids[name] = _created(client, name, place, _described(note, self._name))
        return self._ids[name]


def _active(client: "MlflowClient", name: str) -> "Experiment | None":
    """Return the experiment of that name, or None if no experiment has it. Raises InputError if it is deleted."""
    experiment = client.get_experiment_by_name(name)
    if experiment is not None and experiment.lifecycle_stage != "active":
        raise InputError(
            f"the MLflow experiment {name} is deleted: restore it, or set MLFLOW_EXPERIMENT_NAME to another name"
        )
    return experiment


def _created(client: "MlflowClient", name: str, place: str | None, tags: dict[str, str]) -> str:
    """Return the id of a new experiment, or of the one that another machine has created meanwhile."""
    from mlflow.exceptions import MlflowException

    try:
        return str(client.create_experiment(name, artifact_location=place, tags=KIND | tags))
    except MlflowException:
        if (other := _active(client, name)) is None:
            raise
        return str(other.experiment_id)


def _described(note: str, name: str) -> dict[str, str]:
    """Return the tag that the UI shows as the description of an experiment. name: that of the base."""
    stages = {f"{stage}s": RunTags(stage=stage).where(None) for stage in ("pipeline", "measurement", "promote")}
    filters = stages | {"of_dataset": RunTags(dataset="NAME").where(None)}
    return RunTags(note=note.format(name=name, **filters)).to_mlflow()


def is_database(uri: str) -> bool:
    """Return whether `uri` names a database. Other MLflow stores are servers and folders of files."""
    from mlflow.store.db.db_types import DATABASE_ENGINES

    return uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES


def check_artifacts(place: str) -> None:
    """Check that artifacts can be kept in `place`, by listing a folder there. A local folder is made when needed.

    Raises InputError if the folder cannot be listed, for example because a bucket, library or permission is missing.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if not place.startswith("file:"):
        with input_error(f"artifacts cannot be kept in {masked(place)}"):
            get_artifact_repository(place).list_artifacts("kgcal")
