"""MLflow's model registry: which calibrated model of a data set is the champion, and what a model's URI names.

A data set has one registered model, `kgcal-DATASET`. A version of it is a calibrator's LoggedModel, which belongs to
the embedding model of the train run it came from.
"""

from dataclasses import dataclass

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from kgcore.calibrated import CalibratedModel
from kgcore.errors import InputError, first_line
from tasks.tracking.artifacts import CALIBRATOR, EMBEDDINGS, GRAPH
from tasks.tracking.keys import digest
from tasks.tracking.record import quoted
from tasks.tracking.store import Store

CHALLENGER, CHAMPION = "challenger", "champion"
_MISSING = "RESOURCE_DOES_NOT_EXIST"
_CONTENT, _MODEL = "kgcal.content", "kgcal.model_id"  # tags of a version: hash of its calibrator, its LoggedModel


def registered_name(dataset: str) -> str:
    """The registered model of a data set: its name, with a hyphen in place of a colon, which MLflow does not accept."""
    return f"kgcal-{dataset.replace(':', '-')}"


@dataclass(frozen=True)
class Version:
    """A version of a registered model: its number, the LoggedModel that it is, and its URI."""

    number: str
    model_id: str
    uri: str


def register(store: Store, dataset: str, model_id: str, description: str) -> Version:
    """The version of the data set's registered model that is the calibrator of a LoggedModel.

    One that was fitted to the same before has its version already: a pipeline that was run twice makes no second one.
    """
    name, made = registered_name(dataset), store.model(model_id)
    try:
        store.client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != _MISSING:
            raise InputError(f"{name} cannot be had from {store.place}: {first_line(error)}") from error
        store.client.create_registered_model(name, description=f"Calibrated models of {dataset}, by `kgcal promote`.")
    content = digest(store.load_model(model_id, CALIBRATOR).to_json())
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


def aliased(store: Store, dataset: str, alias: str) -> Version | None:
    """The version of the data set's registered model that bears the alias; None where there is none.

    Raises InputError where the store does not answer, and for a version that was not registered by `register`.
    """
    name = registered_name(dataset)
    try:
        found = store.client.get_model_version_by_alias(name, alias)
    except MlflowException as error:
        if error.error_code in (_MISSING, "INVALID_PARAMETER_VALUE"):  # no such model, no such alias
            return None
        raise InputError(f"the {alias} of {name} cannot be had from {store.place}: {first_line(error)}") from error
    if _MODEL not in found.tags:
        raise InputError(
            f"version {found.version} of {name}, the {alias}, was not registered by `kgcal promote`: take its alias "
            "away"
        )
    return _version(found)


def _version(found: ModelVersion) -> Version:
    # MLflow 3.17 gives the id of the LoggedModel back on creation alone: hence the tag
    return Version(str(found.version), found.tags[_MODEL], f"models:/{found.name}/{found.version}")


def set_alias(store: Store, dataset: str, alias: str, version: Version) -> None:
    """Move the alias to that version."""
    store.client.set_registered_model_alias(registered_name(dataset), alias, version.number)


def load_calibrated(store: Store, model_id: str) -> CalibratedModel:
    """The calibrator of that LoggedModel with its embedding model and graph. Raises InputError where one is gone."""
    inputs = calibrator_inputs(store, model_id)
    [base] = store.get(inputs["train"]).model_ids
    return CalibratedModel(
        store.load_model(base, EMBEDDINGS),
        store.load_model(model_id, CALIBRATOR),
        store.load(inputs["prepare"], GRAPH),
    )


def calibrator_inputs(store: Store, model_id: str) -> dict[str, str]:
    """Stage -> run id of everything that a calibrator came from; the calibrate run that fitted it comes last.

    Raises InputError where the calibrator or that run is gone.
    """
    made_by = run_of_model(store, f"models:/{model_id}")
    return {**store.get(made_by).tags.inputs, "calibrate": made_by}


def run_of_model(store: Store, uri: str) -> str:
    """The run that made the model of that URI: models:/m-ID, models:/NAME/VERSION or models:/NAME@ALIAS.

    Raises InputError where there is no such model.
    """
    name, _, version = uri.removeprefix("models:/").partition("/")
    try:
        if version:
            made = store.client.get_model_version(name, version).run_id
        elif "@" in name:
            made = store.client.get_model_version_by_alias(*name.split("@", 1)).run_id
        else:
            made = store.client.get_logged_model(name).source_run_id
    except MlflowException as error:
        what = ": `kgcal promote` makes one" if name.endswith(f"@{CHAMPION}") else f": {first_line(error)}"
        raise InputError(f"there is no model {uri} in {store.place}{what}") from error
    if not made:
        raise InputError(f"the model {uri} was made by no run")
    return str(made)
