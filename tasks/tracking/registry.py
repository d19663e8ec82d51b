"""MLflow's model registry: the champion and the challenger of each data set, and the run that a model's URI refers to.

A data set has one registered model, `kgcal-DATASET`. Each version is the LoggedModel of a calibrator or of an ensemble.
The embedding models are LoggedModels of the train runs upstream of it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Triples
from kgcore.errors import InputError, first_line
from tasks.tracking.artifacts import CALIBRATOR, EMBEDDINGS, GRAPH, LABELLED
from tasks.tracking.keys import digest
from tasks.tracking.record import ENSEMBLE_NAME, RunRecord, quoted
from tasks.tracking.store import Store
from tasks.workspace.flow_run import emit

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from kgcore.answer.calibrated_model import CalibratedModel

CHALLENGER, CHAMPION = "challenger", "champion"
_MISSING = "RESOURCE_DOES_NOT_EXIST"
_CONTENT, _MODEL = "kgcal.content", "kgcal.model_id"  # tags of a version: hash of its calibrator, id of its LoggedModel


def registered_name(dataset: str) -> str:
    """Return the name of a data set's registered model. MLflow does not accept colons: hyphens replace them."""
    return f"kgcal-{dataset.replace(':', '-')}"


@dataclass(frozen=True)
class Version:
    """A version of a registered model: its number, the id of its LoggedModel, and its URI."""

    number: str
    model_id: str
    uri: str


def register(store: Store, dataset: str, model_id: str, description: str, content: str = "") -> Version:
    """Register a LoggedModel as a version of the data set's registered model. Return the version.

    A version with an equal calibrator or ensemble is re-used, so that a second run of a pipeline adds no version.

    content  hash of what the LoggedModel holds; if empty, it is computed

    Raises InputError if the store does not answer or the LoggedModel does not exist.
    """
    from mlflow.exceptions import MlflowException

    name, made = registered_name(dataset), store.model(model_id)
    try:
        store.client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != _MISSING:
            raise InputError(
                f"the registered model {name} cannot be read from {store.place}: {first_line(error)}"
            ) from error
        store.client.create_registered_model(name, description=f"Calibrated models of {dataset}, by `kgcal promote`.")
    content = content or content_of(store, model_id)
    for version in store.client.search_model_versions(f"name = {quoted(name)}"):
        if version.tags.get(_CONTENT) == content:
            return _version(version)
    created = store.client.create_model_version(
        name,
        f"models:/{model_id}",
        made.run_id,
        tags={_CONTENT: content, _MODEL: model_id},
        description=description,
        model_id=model_id,
    )
    return Version(str(created.version), model_id, f"models:/{name}/{created.version}")


def content_of(store: Store, model_id: str) -> str:
    """Return a hash of the calibrator or the ensemble of a LoggedModel. Raises InputError if it does not exist."""
    return digest(store.load_model(model_id, CALIBRATOR).to_json())


def describe(store: Store, dataset: str, version: Version, description: str) -> None:
    """Set the description of a version of the data set's registered model, which the MLflow UI shows as Markdown."""
    store.client.update_model_version(registered_name(dataset), version.number, description=description)


def aliased(store: Store, dataset: str, alias: str) -> Version | None:
    """Return the version of the data set's registered model that has the alias; None if no version has it.

    alias  CHALLENGER or CHAMPION

    Raises InputError if the store does not answer, or if `register` did not make the version.
    """
    from mlflow.exceptions import MlflowException

    name = registered_name(dataset)
    try:
        found = store.client.get_model_version_by_alias(name, alias)
    except MlflowException as error:
        if error.error_code in (_MISSING, "INVALID_PARAMETER_VALUE"):  # no such model, no such alias
            return None
        raise InputError(f"the {alias} of {name} cannot be read from {store.place}: {first_line(error)}") from error
    if _MODEL not in found.tags:
        raise InputError(
            f"version {found.version} of {name}, the {alias}, was not registered by `kgcal promote`: remove the alias "
            f"{alias} from it"
        )
    return _version(found)


def _version(found: "ModelVersion") -> Version:
    # MLflow 3.17 returns the id of the LoggedModel only when the version is created: a tag keeps it
    return Version(str(found.version), found.tags[_MODEL], f"models:/{found.name}/{found.version}")


def set_alias(store: Store, dataset: str, alias: str, version: Version) -> None:
    """Move the alias to that version of the data set's registered model."""
    store.client.set_registered_model_alias(registered_name(dataset), alias, version.number)


def crown(store: Store, dataset: str, version: Version, before: str | None, gain: float, reason: str) -> None:
    """Move the alias `champion` to a version, and tell the Prefect server of the flow run.

    before  URI of the champion until now; None: there was none
    gain    Brier score of that champion, or of the constant base rate, minus that of the version
    """
    set_alias(store, dataset, CHAMPION, version)
    payload = {"dataset": dataset, "champion": version.uri, "before": before, "brier_gain": gain, "reason": reason}
    emit("kgcal.champion.changed", f"kgcal.model.{registered_name(dataset)}", payload)


@dataclass(frozen=True)
class Sources:
    """Where a calibrated model of the store comes from.

    run     the run that logged it: a calibrate run or an ensemble's run
    models  ids of the LoggedModels of its embedding models: its own, and then the further models whose scores it sees;
            or one for each member of an ensemble
    graph   id of the prepare run that has its graph
    """

    run: RunRecord
    models: tuple[str, ...]
    graph: str

    @property
    def is_ensemble(self) -> bool:
        """Return whether it is an ensemble."""
        return self.run.tags.stage == ENSEMBLE_NAME


def sources_of(store: Store, model_id: str, run: RunRecord | None = None) -> Sources:
    """Return where a calibrator or an ensemble comes from, by the id of its LoggedModel.

    run  the run that logged it; None: the store is asked

    Raises InputError if it, the run that logged it, or its train run no longer exists.
    """
    run = run or store.known(run_of_model(store, f"models:/{model_id}"))
    inputs = run.tags.inputs
    members = [store.known(run_id) for name, run_id in inputs.items() if name.startswith("calibrate.")]
    trained = [run_id for name, run_id in inputs.items() if name == "train" or name.startswith("train.")]
    trained += [member.tags.inputs["train"] for member in members]
    logged = [embedding for run_id in trained for embedding in store.known(run_id).model_ids]
    if len(logged) > 1:
        places = {store.model(embedding).fingerprint: embedding for embedding in logged}
        logged = [places[fingerprint] for fingerprint in store.load_model(model_id, CALIBRATOR).embedding_models]
    return Sources(run, tuple(logged), inputs["prepare"])


def load_calibrated(store: Store, model_id: str) -> "CalibratedModel":
    """Return a calibrator, also that of an ensemble, with its embedding models and graph.

    Raises InputError if one of them no longer exists.
    """
    from kgcore.answer.calibrated_model import CalibratedModel

    sources, calibrated = sources_of(store, model_id), store.load_model(model_id, CALIBRATOR)
    models = [store.load_model(base, EMBEDDINGS) for base in sources.models]
    graph, labelled = store.load(sources.graph, GRAPH), _labelled(store, sources.run)
    return CalibratedModel(calibrated.scorer_of(models, graph), calibrated, graph, labelled)


def _labelled(store: Store, made_by: RunRecord) -> Triples:
    """Return the candidates (n, 3) whose labels a calibrate run, or the members of an ensemble's run, were fitted to.

    All calibrators of the run count as fitted to them, because their base rate may come from these labels.
    """
    inputs = made_by.tags.inputs
    members = [store.known(run_id) for name, run_id in inputs.items() if name.startswith("calibrate.")]
    matched = {run.tags.inputs["match"] for run in (made_by, *members) if "match" in run.tags.inputs}
    found = [run_id for run_id in sorted(matched) if LABELLED.path in (store.known(run_id).tags.artifacts or {})]
    return np.concatenate([np.empty((0, 3), dtype=np.int64), *(store.load(run_id, LABELLED) for run_id in found)])


def run_of_model(store: Store, uri: str) -> str:
    """Return the id of the run that logged a model.

    uri  models:/m-ID, models:/NAME/VERSION or models:/NAME@ALIAS

    Raises InputError if the model does not exist, or if no run has logged it.
    """
    return _named(store, uri)[0]


def model_of_uri(store: Store, uri: str) -> str:
    """Return the id of the LoggedModel that a URI names, as `run_of_model` finds its run.

    Raises InputError if the model does not exist, or if `kgcal promote` did not register the version.
    """
    _, model_id = _named(store, uri)
    if not model_id:
        raise InputError(f"the model {uri} was not registered by `kgcal promote`: use a version that was")
    return model_id


def _named(store: Store, uri: str) -> tuple[str, str]:
    """Return the ids of the run and of the LoggedModel of a URI; '' for a version that has no tag with the latter."""
    from mlflow.exceptions import MlflowException

    client, (name, _, number) = store.client, uri.removeprefix("models:/").partition("/")
    try:
        if number or "@" in name:
            ask = client.get_model_version if number else client.get_model_version_by_alias
            version = ask(*((name, number) if number else name.split("@", 1)))
            run_id, model_id = version.run_id, version.tags.get(_MODEL, "")
        else:
            run_id, model_id = client.get_logged_model(name).source_run_id, name  # it must still exist
    except MlflowException as error:
        hint = ": `kgcal promote` makes a champion" if name.endswith(f"@{CHAMPION}") else f": {first_line(error)}"
        raise InputError(f"the model {uri} does not exist in {store.place}{hint}") from error
    if not run_id:
        raise InputError(f"the model {uri} belongs to no run: use a model that a kgcal run has logged")
    return str(run_id), str(model_id)
