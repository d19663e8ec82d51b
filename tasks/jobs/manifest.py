"""Finding an upstream run that a person names: by an id, a model's URI, or `latest`."""

import logging

from kgcore.errors import InputError
from tasks.stages.reference import StageRef
from tasks.tracking.artifacts import MANIFEST
from tasks.tracking.places import hint
from tasks.tracking.record import RunTags
from tasks.tracking.registry import run_of_model
from tasks.tracking.store import Store, open_store

LATEST = "latest"  # the newest finished pipeline
log = logging.getLogger("kgcal")


def resolve(stage: str, text: str) -> StageRef:
    """The finished run of a stage that a person names. Accepted are

    * its run id, or STAGE:ID;
    * the id of a run that came from it, or of a pipeline, whose manifest lists it;
    * the URI of a model (`models:/...`) or artifact (`runs:/...`) of such a run;
    * `latest`, the newest finished pipeline: runs that are taken from `latest` belong together.

    Raises InputError where the run does not exist, is of another stage, or is not finished.
    """
    store = open_store()
    run = store.get(_named_run(store, text.removeprefix(f"{stage}:")))
    run_id = run.run_id
    if run.tags.stage == "pipeline":
        run_id = store.load(run_id, MANIFEST)[stage]
    elif run.tags.stage != stage:
        run_id = run.tags.inputs.get(stage, run_id)
    if run_id != text:
        log.info("%s %s is run %s", text, stage, run_id)
    store.finished(stage, run_id)
    return StageRef(stage, run_id)


def _named_run(store: Store, text: str) -> str:
    """The id of the run that is named."""
    if text == LATEST:
        newest = store.find(RunTags(stage="pipeline"))
        if not newest:
            raise InputError(
                "`latest` needs a finished pipeline run, and the store has none: run `kgcal run` first, or name a run "
                "id" + hint(store.uri)
            )
        return newest[0].run_id
    if text.startswith("models:/"):
        return run_of_model(store, text)
    return text.removeprefix("runs:/").split("/")[0]
