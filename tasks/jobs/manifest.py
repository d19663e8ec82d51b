"""Finds the run of a stage from the text that the user gives: a run id, a model's URI, or `latest`."""

import logging
import re

from kgcore.errors import InputError
from tasks.stages.running import StageRef
from tasks.tracking.artifacts import MANIFEST
from tasks.tracking.record import ENSEMBLE_NAME, LATEST, RunRecord, RunTags, hint
from tasks.tracking.registry import run_of_model
from tasks.tracking.store import Store, open_store

log = logging.getLogger("kgcal")


def resolve(stage: str, text: str) -> StageRef:
    """Return the finished run of a stage from the text that the user gives. `text` is one of

    * the id of the run, or STAGE:ID;
    * the id of a later run that was made from the run;
    * the id of a pipeline that contains the run;
    * the URI of a model (`models:/...`) or an artifact (`runs:/...`) of one of these runs;
    * `latest`: the newest finished pipeline.

    Raises InputError if the run does not exist, is a run of another stage, or is not finished.
    """
    store = open_store()
    run = named_run(store, text.removeprefix(f"{stage}:"))
    run_id = named = run.run_id
    if run.tags.stage == "pipeline":
        manifest = store.load(run_id, MANIFEST)
        if stage not in manifest:
            reason = "without candidates" if stage == "match" else "without the preset auto"
            raise InputError(f"pipeline {run_id} has no {stage} run: it was made {reason}")
        run_id = manifest[stage]
    elif run.tags.stage != stage:
        run_id = run.tags.inputs.get(stage, run_id)
    if run_id != text:
        log.info("the %s run of %s is %s", stage, text, run_id)
    if run_id != named:
        run = store.get(run_id)
    if stage != ENSEMBLE_NAME and run.tags.stage == ENSEMBLE_NAME:
        raise InputError(f"run {run_id} is an ensemble of several models: name a run of one of them, for a {stage} run")
    run.check_finished(stage)
    return StageRef(stage, run_id)


def is_run(text: str) -> bool:
    """Return whether a text has the form of a run's name, as in `resolve`, and not that of a file."""
    return text == LATEST or re.fullmatch(r"([a-z]+:)?[0-9a-f]{32}|(runs|models):/.+", text) is not None


def named_run(store: Store, text: str) -> RunRecord:
    """Return the run of any stage that a text names, as in `resolve`. Raises InputError if it does not exist."""
    if text == LATEST:
        return newest_pipeline(store)
    if text.startswith("models:/"):
        return store.get(run_of_model(store, text))
    return store.get(text.removeprefix("runs:/").split("/")[0])


def newest_pipeline(store: Store, dataset: str | None = None) -> RunRecord:
    """Return the newest finished pipeline run, perhaps on a data set. Raises InputError if the store has none."""
    newest = store.find(RunTags(stage="pipeline", dataset=dataset))
    if not newest and dataset:
        raise InputError(f"{dataset} has no finished pipeline: run `kgcal run --dataset {dataset}` first")
    if not newest:
        raise InputError(
            "`latest` needs a finished pipeline run, and the store has none: run `kgcal run` first, or name a run id"
            + hint(store.uri)
        )
    return newest[0]
