"""The champion on newly labelled triples: a look at a time, as one MLflow run whose metrics are the series."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock

from kgcore import storage
from kgcore.config import WatchConfig
from kgcore.datasets.base import md5_of
from kgcore.datasets.labels import read_labels
from kgcore.errors import InputError
from kgcore.monitoring.drift import Look, look
from tasks.jobs.compare import dataset_name
from tasks.tracking.artifacts import PREDICTIONS
from tasks.tracking.handles import Artifact
from tasks.tracking.keys import digest
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, aliased, calibrator_inputs, load_calibrated
from tasks.tracking.store import Store, open_store

log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class WatchResult:
    """What a look at a champion found.

    model         the champion's URI
    metrics       the figures of `Look.metrics`
    findings      what is wrong, in sentences; empty where the champion fits
    number        number of the look, from 1
    run           MLflow run of all looks
    recalibrated  the pipeline that the look led to; '' = none
    """

    dataset: str
    model: str
    metrics: Mapping[str, float]
    findings: tuple[str, ...]
    number: int
    run: str
    recalibrated: str = ""


def watch_champion(dataset: str, labels: Path, config: WatchConfig) -> WatchResult:
    """Measure the champion of a data set on newly labelled triples, and find whether it still fits.

    Triples of the champion's train, valid and test are left out: they are not new to it. The same file and champion
    again make no new look.

    Raises InputError where the data set has no champion, or the labels are too few.
    """
    store, dataset = open_store(), dataset_name(dataset)
    champion = aliased(store, dataset, CHAMPION)
    if champion is None:
        raise InputError(f"{dataset} has no champion to watch: `kgcal promote --dataset {dataset}` first")
    model_id = champion.model_id
    identity = digest([md5_of(labels), model_id, asdict(replace(config, on_drift="warn"))])
    with FileLock(store.home / "watch.lock"):
        store.mark_dead_runs()
        history = store.find(RunTags(stage="watch", dataset=dataset), status=None)
        before = history[0] if history else None
        number = int(before.metrics.get("look", 0)) if before else 0
        if before and before.tags.look == identity:
            log.info("%s was looked at with these labels already", dataset)
            found = store.load(before.run_id, _look_artifact(number))
            return replace(found, number=number, run=before.run_id, recalibrated=before.tags.recalibrated or "")

        measured = _look(store, model_id, labels, config)
        number += 1
        found = WatchResult(dataset, champion.uri, measured.metrics(), tuple(measured.findings), number, "")
        with store.open_run(
            f"watch {dataset}", RunTags(stage="watch", dataset=dataset), before.run_id if before else None
        ) as run_id:
            store.log_json(run_id, _to_json(found), _look_artifact(number).path)
            measured_on = store.get(calibrator_inputs(store, model_id)["prepare"]).dataset
            metrics = {**found.metrics, "look": float(number), "champion": float(champion.number)}
            store.log_metrics(run_id, metrics, number, model_id, replace(measured_on, name=dataset))
            store.log_tags(run_id, RunTags(look=identity, recalibrated="", note=markdown(found)))
    return replace(found, run=run_id)


def mark_recalibrated(seen: WatchResult, pipeline: str) -> WatchResult:
    """Note the pipeline run that a look led to: the same look leads to no other."""
    open_store().log_tags(seen.run, RunTags(recalibrated=pipeline))
    return replace(seen, recalibrated=pipeline)


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
    for classified in store.find(RunTags(stage="classify", inputs={"calibrate": made_by})):
        test = store.load(classified.run_id, PREDICTIONS)
        return look(probabilities, scores, new["label"].to_numpy(), test.scores, test.weights, config)
    raise InputError(f"the test predictions by calibrate run {made_by} are gone: there is nothing to compare with")


def markdown(found: WatchResult) -> str:
    """What a look found, for people."""
    lines = [f"Look {found.number} at {found.model}: " + ("; ".join(found.findings) or "it fits."), ""]
    lines += ["| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value:.4g} |" for name, value in found.metrics.items())])


def _to_json(found: WatchResult) -> dict[str, object]:
    return {name: getattr(found, name) for name in ("dataset", "model", "metrics", "findings")}


def _read_look(path: Path) -> WatchResult:
    data = storage.read_json(path)
    return WatchResult(data["dataset"], data["model"], data["metrics"], tuple(data["findings"]), 0, "")


def _look_artifact(number: int) -> Artifact[WatchResult]:
    return Artifact("watch", f"looks/{number}.json", _read_look)
