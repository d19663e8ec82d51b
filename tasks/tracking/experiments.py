"""The experiments of a store: pipelines in one, decisions in another, each with a description that the UI shows."""

from typing import TYPE_CHECKING

from filelock import FileLock

from kgcore.errors import InputError, masked
from tasks.tracking.record import APPLY_SCORES, WATCH_SCORES, RunTags, run_of
from tasks.workspace.resources import input_error
from tasks.workspace.settings import artifact_place, ensure_home, experiment_name, named_artifacts, project_run_id

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

# the stages of runs that use a finished model; `comparison` and `survey` are about the candidates of a question
ASKED = ("predict", "comparison", "discover", "survey", "explain", "base-rate")
DECISIONS = frozenset([*ASKED, "promote", "exam", "watch", APPLY_SCORES, WATCH_SCORES])
KIND = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens the page of runs and models
PIPELINES_NOTE = """Pipelines of kgcal, each with its stages nested below it, searches, audits, calibrators of scores.
Predictions, promotions and checks are in the experiment `{name}-decisions`.

* Compare calibrators: `kgcal compare --dataset NAME` prints a link to those that were measured on the same triples.
* Pipelines of a data set: filter by ``{pipelines} and params.dataset = 'NAME'``.
* Measurements of all calibrators: filter by ``{measurements}``, sorted by `brier`, lowest first."""
DECISIONS_NOTE = """What was decided with the models of the experiment `{name}`: predictions, missing facts,
explanations, base rates, exams, promotions and checks of a champion.

* Decisions of a kind: filter by a stage, such as ``{promotes}``.
* Decisions of a data set: filter by ``{of_dataset}``."""


class Experiments:
    """The experiments of new runs. Earlier runs stay where they are, and are found in every experiment.

    base  id of the experiment of pipelines. Inside `mlflow run`, it is that of the project's run
    """

    def __init__(self, client: "MlflowClient", uri: str) -> None:
        """Open the experiment of pipelines; create it if it does not exist.

        Raises InputError if it is deleted, or if its artifacts cannot be kept where it, or the environment, says.
        """
        self._decisions = ""
        if (run_id := project_run_id()) is not None:
            self.base = str(run_of(client, uri, run_id).info.experiment_id)
            return
        name = experiment_name()
        pipelines = _active(client, name)
        if pipelines is not None:
            kept = str(pipelines.artifact_location)  # an experiment never changes it
            if is_database(uri) and (named := named_artifacts()) and named != kept:
                raise InputError(
                    f"the MLflow experiment {name} keeps its artifacts in {masked(kept)}, but "
                    f"KGCAL_ARTIFACTS is {masked(named)}: unset KGCAL_ARTIFACTS, or name another experiment "
                    "in MLFLOW_EXPERIMENT_NAME"
                )
            if is_database(uri):
                check_artifacts(kept)
            self.base = str(pipelines.experiment_id)
            for tag, text in _described(PIPELINES_NOTE, name).items():
                if tag not in pipelines.tags:  # an earlier version has created it
                    client.set_experiment_tag(self.base, tag, text)
            return
        place = artifact_place() if is_database(uri) else None  # a server chooses its own artifact storage
        if place:
            check_artifacts(place)
        self.base = _created(client, name, place, _described(PIPELINES_NOTE, name))

    def of(self, stage: str | None, client: "MlflowClient") -> str:
        """Return the id of the experiment of a new run of that stage or job, if it has no parent.

        The experiment of decisions is created for the first of them. It keeps its artifacts where `base` does.
        Raises InputError if it is deleted.
        """
        if stage not in DECISIONS or project_run_id() is not None:
            return self.base
        if not self._decisions:
            base = client.get_experiment(self.base)
            name = f"{base.name}-decisions"
            with FileLock(ensure_home() / "store.lock"):
                decisions, note = _active(client, name), _described(DECISIONS_NOTE, base.name)
                place = base.artifact_location
                self._decisions = str(decisions.experiment_id) if decisions else _created(client, name, place, note)
        return self._decisions


def _active(client: "MlflowClient", name: str) -> "Experiment | None":
    """Return the experiment of that name, or None if no experiment has it. Raises InputError if it is deleted."""
    experiment = client.get_experiment_by_name(name)
    if experiment is not None and experiment.lifecycle_stage != "active":
        raise InputError(
            f"the MLflow experiment {name} is deleted: restore it, or set MLFLOW_EXPERIMENT_NAME to another name"
        )
    return experiment


def _created(client: "MlflowClient", name: str, place: str | None, tags: dict[str, str]) -> str:
    return str(client.create_experiment(name, artifact_location=place, tags=KIND | tags))


def _described(note: str, name: str) -> dict[str, str]:
    """Return the tag that the UI shows as the description of an experiment. name: that of the pipelines' experiment."""
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
