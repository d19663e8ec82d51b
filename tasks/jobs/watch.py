"""The champion on newly labelled triples: a look at a time, as one MLflow run whose metrics are the series."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from kgcore import storage
from kgcore.config import WatchConfig
from kgcore.datasets.base import md5_of
from kgcore.datasets.labels import read_labels
from kgcore.errors import InputError
from kgcore.monitoring.drift import Look, look
from tasks.jobs.compare import dataset_name
from tasks.stages.base import digest, log
from tasks.tracking.registry import CHAMPION, aliased, calibrator_inputs, load_calibrated
from tasks.tracking.store import FINISHED, Store, open_store

_RECALIBRATED = "kgcal.recalibrated"  # the pipeline run that the newest look has led to, or nothing


def watch_champion(dataset: str, labels: Path, config: WatchConfig) -> dict[str, Any]:
    """Measure the champion of a data set on newly labelled triples, and say whether it still fits.

    Triples of the champion's train, valid and test are left out: they are not new to it.
    {dataset, model, metrics, findings, number, run}: the champion's URI, the figures of `Look.metrics`, what is wrong,
    the number of the look, and its MLflow run; `recalibrated` where that was done about this look before. The same file
    and champion again make no new look.

    Raises InputError where there is no champion or there are too few labels.
    """
    store, dataset = open_store(), dataset_name(dataset)
    champion = aliased(store, dataset, CHAMPION)
    if champion is None:
        raise InputError(f"{dataset} has no champion to watch: `kgcal promote --dataset {dataset}` first")
    model_id = champion.model_id
    identity = digest([md5_of(labels), model_id, asdict(replace(config, on_drift="warn"))])
    with FileLock(store.home / "watch.lock"):
        store.reap()
        history = store.search(status=None, stage="watch", dataset=dataset)
        resume, tags = (str(history[0].info.run_id), history[0].data.tags) if history else (None, {})
        number = int(history[0].data.metrics.get("look", 0)) if history else 0
        if resume and tags.get("kgcal.look") == identity:
            log.info("%s was looked at with these labels already", dataset)
            found: dict[str, Any] = store.load(resume, _file(number), storage.read_json)
            done = {"recalibrated": tags[_RECALIBRATED]} if tags.get(_RECALIBRATED) else {}
            return found | {"number": number, "run": resume} | done

        seen, came_from = _look(store, model_id, labels, config), calibrator_inputs(store, model_id)
        number += 1
        found = {"dataset": dataset, "model": champion.uri}
        found |= {"metrics": seen.metrics(), "findings": list(seen.findings)}
        with store.open_run(f"watch {dataset}", {"stage": "watch", "dataset": dataset}, resume=resume) as run_id:
            store.client.log_text(run_id, json.dumps(found, indent=1), _file(number))
            measured_on = (dataset, store.run(came_from["prepare"]).data.tags["kgcal.digest"])
            metrics = found["metrics"] | {"look": float(number), "champion": float(champion.number)}
            store.log_metrics(run_id, metrics, number, model_id, measured_on)
            tags = {"kgcal.look": identity, _RECALIBRATED: "", "mlflow.note.content": markdown(found, number)}
            store.log_tags(run_id, tags)
    return found | {"number": number, "run": run_id}


def mark_recalibrated(seen: dict[str, Any], pipeline: str) -> None:
    """Remember the pipeline run that a look has led to: the same look leads to no other."""
    open_store().log_tags(seen["run"], {_RECALIBRATED: pipeline})


def _look(store: Store, model_id: str, labels: Path, config: WatchConfig) -> Look:
    """The figures of a calibrated model on the labelled triples that are new to it."""
    model, frame = load_calibrated(store, model_id), read_labels(labels)
    graph, (triples, known) = model.graph, model.graph.number(frame)
    old = graph.index(graph.train.triples, graph.valid.triples, graph.test.triples).contains(triples[known])
    log.info(
        "%s: %d labelled triples, %d of unknown names, %d known before", labels.name, len(frame), sum(~known), sum(old)
    )
    new = frame[known][~old]
    scores, probabilities, _ = model.predict(new)
    made_by = calibrator_inputs(store, model_id)["calibrate"]
    for classified in store.search(1, FINISHED, **{"stage": "classify", "input.calibrate": made_by}):
        test = store.load(classified.info.run_id, "predictions.parquet", storage.read_predictions)
        return look(probabilities, scores, new["label"].to_numpy(), test.scores, test.weights, config)
    raise InputError(f"the test predictions by calibrate run {made_by} are gone: there is nothing to compare with")


def markdown(found: dict[str, Any], number: int) -> str:
    """What a look found, for people."""
    lines = [f"Look {number} at {found['model']}: " + ("; ".join(found["findings"]) or "it fits."), ""]
    lines += ["| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value:.4g} |" for name, value in found["metrics"].items())])


def _file(number: int) -> str:
    return f"looks/{number}.json"
