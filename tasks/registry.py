"""MLflow's model registry: which calibrated model of a data set is the champion, and what a model's URI names.

A data set has one registered model, `kgcal-DATASET`. A version of it is a calibrator's LoggedModel, which names the
embedding model that it belongs to.
"""

from mlflow.exceptions import MlflowException

from kgcore.errors import InputError, first_line
from tasks.store import Store


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
        raise InputError(f"there is no model {uri} in {store.uri}: {first_line(error)}") from error
    if not made:
        raise InputError(f"the model {uri} was made by no run")
    return str(made)
