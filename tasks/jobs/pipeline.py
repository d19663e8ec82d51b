"""The run that a pipeline's stages are nested under, its manifest, and looking an upstream stage up in one."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgcore import storage
from kgcore.config import Config, TrainConfig
from kgcore.datasets.base import find_dataset
from kgcore.errors import InputError
from kgcore.report.summary import HEADLINES, markdown, rows
from tasks.stages.base import Context, StageRef, checked, digest, inputs, log
from tasks.stages.train import check_training
from tasks.tracking.fingerprint import whole_code_fingerprint
from tasks.tracking.names import short_label
from tasks.tracking.places import hint
from tasks.tracking.registry import run_of_model
from tasks.tracking.store import Store, open_store
from tasks.workspace.settings import ensure_home

MANIFEST = "manifest.json"
LATEST = "latest"  # the newest finished pipeline


@contextmanager
def pipeline_run(
    configs: Mapping[str, Config],
    device: str,
    flow_run: str | None = None,
    parent: str | None = None,
    preset: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """The MLflow run of a pipeline, with every setting as a parameter; yields its id.

    flow_run  id of the Prefect flow run; a retry of it goes on with the same MLflow run
    parent    MLflow run that it is nested under, as a cell of a grid is
    preset    further parameters: which preset was used, and which settings it decided

    Raises InputError for settings that cannot work, before any run is opened.
    """
    params = all_settings(configs) | dict(preset or {})
    params["dataset"] = find_dataset(params["dataset"]).name
    train = configs["train"]
    assert isinstance(train, TrainConfig)
    check_training(train, device)
    title = f"{params['dataset']} {train.model} {train.loss}"
    with open_pipeline(title, {"key": _key(configs)}, params, flow_run, parent) as run_id:
        yield run_id


@contextmanager
def open_pipeline(
    title: str, tags: Mapping[str, str], params: Mapping[str, Any], flow_run: str | None, parent: str | None = None
) -> Iterator[str]:
    """A run of stage `pipeline`, or the one that the flow run had before it was retried."""
    store = open_store()
    store.reap()
    tags = {"stage": "pipeline", **tags} | ({"prefect_flow_run": flow_run} if flow_run else {})
    earlier = store.search(status=None, prefect_flow_run=flow_run) if flow_run else []
    resume = earlier[0].info.run_id if earlier else None
    with store.open_run(title, tags, parent, resume) as run_id:
        store.log_params(run_id, params)
        yield run_id


def all_settings(configs: Mapping[str, Config]) -> dict[str, Any]:
    """Every setting by its name."""
    return {key: value for config in configs.values() for key, value in asdict(config).items()}


def finish_pipeline(run_id: str, refs: Mapping[str, StageRef]) -> dict[str, Any]:
    """Log manifest, summary, report and headline metrics of the stages; the summary:
    {dataset, model, loss, seed, runs, seconds, reused, metrics, accuracy_per_relation, ranks, report, pipeline}.

    `seconds` are what a stage took when it ran; `reused` names the stages that were not run now.
    """
    store = open_store()
    runs = {stage: store.run(ref.run_id) for stage, ref in refs.items()}
    train = json.loads(runs["train"].data.tags["kgcal.config"])
    prepared = runs["prepare"].data.tags
    ids = {stage: ref.run_id for stage, ref in refs.items()}
    summary: dict[str, Any] = {
        "dataset": prepared["kgcal.dataset"],
        "model": train["model"],
        "loss": train["loss"],
        "seed": train["seed"],
        "runs": ids,
        "seconds": {stage: round(run.data.metrics["seconds"], 3) for stage, run in runs.items()},
        "reused": [stage for stage, run in runs.items() if run.data.tags.get("mlflow.parentRunId") != run_id],
    } | store.load(refs["evaluate"].run_id, "summary.json", storage.read_json)
    with tempfile.TemporaryDirectory() as folder:
        storage.write_json(Path(folder) / MANIFEST, ids)
        storage.write_json(Path(folder) / "summary.json", summary)
        store.load(refs["report"].run_id, "report.html", lambda path: shutil.copy(path, folder))
        store.load(refs["report"].run_id, "figures", lambda path: shutil.copytree(path, Path(folder) / "figures"))
        store.log_artifacts(run_id, Path(folder))
        place = ensure_home() / "reports" / run_id
        shutil.copytree(folder, place, dirs_exist_ok=True)
    dataset = (prepared["kgcal.dataset"], prepared["kgcal.digest"])
    store.log_dataset(run_id, dataset, dataset[0], {})
    models = {}
    for model_id in store.model_ids(ids["calibrate"]):
        models[store.client.get_logged_model(model_id).tags["label"]] = model_id
    for negatives, calibrator, values in rows(summary):
        label = f"{negatives}.{calibrator}" if negatives else calibrator
        metrics = {f"{short_label(label)}.{name}": values[name] for name in HEADLINES if name in values}
        store.log_metrics(run_id, metrics, model_id=models[label], dataset=dataset)
    store.log_metrics(run_id, summary["ranks"], model_id=store.model_ids(ids["train"])[0], dataset=dataset)
    store.log_tags(run_id, {"mlflow.note.content": markdown(summary)})  # the run's description in the UI
    summary |= {"report": str(place / "report.html"), "pipeline": run_id}
    return summary


def finished_pipeline(configs: Mapping[str, Config], context: Context) -> dict[str, Any] | None:
    """The summary of a finished pipeline of these settings and this code whose evaluation is there, or None."""
    store = open_store()
    for run in store.search(newest=10, stage="pipeline", key=_key(configs)):
        with suppress(InputError):  # its artifacts are gone: then it is as if it had not been
            summary: dict[str, Any] = store.load(run.info.run_id, "summary.json", storage.read_json)
            if context.may_reuse(run) and store.complete(store.run(summary["runs"]["evaluate"])):
                return summary | {"pipeline": run.info.run_id}
    return None


def _key(configs: Mapping[str, Config]) -> str:
    """Settings, what the data set is, and all of kgcore: more than the stages' own keys see, never less."""
    settings = {name: asdict(config) for name, config in configs.items()}
    spec = find_dataset(settings["prepare"]["dataset"])
    return digest([settings, spec.identity(), storage.FORMAT, whole_code_fingerprint()])


def resolve(stage: str, text: str) -> StageRef:
    """The stage that a person names: by its run id; by the id of a run that came from it, or of a pipeline, whose
    manifest has it; by the URI of a model (`models:/...`) or artifact (`runs:/...`) of such a run; or by `latest`,
    which is the newest finished pipeline, so that what is taken from `latest` belongs together.

    Raises InputError where there is no such run, it is of another stage, or it is not finished.
    """
    store = open_store()
    run = store.run(_named_run(store, text.removeprefix(f"{stage}:")))
    run_id, kind = run.info.run_id, run.data.tags.get("kgcal.stage")
    if kind == "pipeline":
        run_id = store.load(run_id, MANIFEST, storage.read_json)[stage]
    elif kind != stage:
        run_id = inputs(run).get(stage, run_id)
    if run_id != text:
        log.info("%s %s is run %s", text, stage, run_id)
    ref = StageRef(stage, run_id)
    checked(store, ref)
    return ref


def _named_run(store: Store, text: str) -> str:
    """The id of the run that is named."""
    if text == LATEST:
        newest = store.search(stage="pipeline")
        if not newest:
            raise InputError(
                "there is no finished pipeline run to take the latest from: name a run id, or `kgcal run` first"
                + hint(store.uri)
            )
        return str(newest[0].info.run_id)
    if text.startswith("models:/"):
        return run_of_model(store, text)
    return text.removeprefix("runs:/").split("/")[0]
