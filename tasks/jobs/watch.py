"""Watches the champion of a data set on newly labelled triples.

One measurement is called a look. All looks at the champions of a data set are steps of one MLflow run.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from filelock import FileLock

from kgcore import storage
from kgcore.config import WatchConfig
from kgcore.datasets.base import md5_of
from kgcore.datasets.labels import read_labels
from kgcore.datasets.unknown_names import describe_unknown_names, examples_of_unknown_names
from kgcore.errors import InputError
from kgcore.evaluation.predictions import Predictions
from kgcore.monitoring.drift import Look, look
from tasks.jobs.compare import dataset_name
from tasks.tracking.artifacts import ENSEMBLE_PREDICTIONS, PREDICTIONS
from tasks.tracking.handles import Artifact
from tasks.tracking.keys import digest
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, Sources, aliased, load_calibrated, sources_of
from tasks.tracking.store import Store, open_store

log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class WatchResult:
    """The result of a look at a champion.

    dataset       name of the data set
    model         URI of the champion
    metrics       name -> value, as `Look.metrics` returns them
    findings      one sentence about each problem; empty: there is no problem
    number        number of the look, from 1
    run           id of the MLflow run that has all looks
    recalibrated  run id of the pipeline that recalibrated the model after the look; '': none
    """

    dataset: str
    model: str
    metrics: Mapping[str, float]
    findings: tuple[str, ...]
    number: int
    run: str
    recalibrated: str = ""


def watch_champion(dataset: str, labels: Path, config: WatchConfig) -> WatchResult:
    """Measure the champion of a data set on newly labelled triples, and test whether its probabilities are still right.

    dataset  name of the data set, or the folder of the user's files
    labels   file of the labelled triples: subject, predicate, object, 1 or -1

    Triples in the train, valid and test splits of the champion's graph are dropped, because they are not new. If the
    file, the champion and the settings have not changed since the newest look, that look is returned again.

    Raises InputError if the data set has no champion, if the file cannot be read, or if fewer than `config.at_least`
    triples are new.
    """
    store, dataset = open_store(), dataset_name(dataset)
    champion = aliased(store, dataset, CHAMPION)
    if champion is None:
        raise InputError(f"{dataset} has no champion to watch: run `kgcal promote --dataset {dataset}` first")
    model_id = champion.model_id
    identity = digest([md5_of(labels), model_id, asdict(replace(config, on_drift="warn"))])
    with FileLock(store.home / "watch.lock"):
        store.mark_dead_runs()
        history = store.find(RunTags(stage="watch", dataset=dataset), status=None)
        before = history[0] if history else None
        number = int(before.metrics.get("look", 0)) if before else 0
        if before and before.tags.look == identity:
            log.info("%s: champion, labels and settings have not changed: the newest look is shown again", dataset)
            found = store.load(before.run_id, _look_artifact(number))
            return replace(found, number=number, run=before.run_id, recalibrated=before.tags.recalibrated or "")

        measured = _look(store, model_id, labels, config)
        number += 1
        with store.open_run(
            f"watch {dataset}", RunTags(stage="watch", dataset=dataset), before.run_id if before else None
        ) as run_id:
            found = WatchResult(dataset, champion.uri, measured.metrics(), measured.findings, number, run_id)
            store.log_json(run_id, _to_json(found), _look_artifact(number).path)
            measured_on = store.get(sources_of(store, model_id).graph).dataset
            metrics = {**found.metrics, "look": float(number), "champion": float(champion.number)}
            store.log_metrics(run_id, metrics, number, model_id, replace(measured_on, name=dataset))
            store.log_tags(run_id, RunTags(look=identity, recalibrated="", note=markdown(found)))
    return found


def mark_recalibrated(found: WatchResult, pipeline: str) -> WatchResult:
    """Log which pipeline recalibrated the model after a look, so that the same look starts no second pipeline.

    pipeline  run id of the pipeline
    """
    open_store().log_tags(found.run, RunTags(recalibrated=pipeline))
    return replace(found, recalibrated=pipeline)


def _look(store: Store, model_id: str, labels: Path, config: WatchConfig) -> Look:
    """Measure a calibrated model on the labelled triples that are new to it."""
    model, frame = load_calibrated(store, model_id), read_labels(labels)
    graph, (triples, known) = model.graph, model.graph.number(frame)
    old = graph.index(graph.train.triples, graph.valid.triples, graph.test.triples).contains(triples[known])
    log.info(
        "%s: %d labelled triples, %s, %d in train, valid or test",
        labels.name,
        len(frame),
        describe_unknown_names(sum(~known), examples_of_unknown_names(frame[~known], graph.entities, graph.predicates)),
        sum(old),
    )
    new = frame[known][~old]
    scores, probabilities, _ = model.predict(new)
    test = _test_predictions(store, sources_of(store, model_id))
    # the predictions of an ensemble's run have no scores, because each of its ensembles has others
    reference = test.scores if np.isfinite(test.scores).all() else model.trained.score(test.triples)
    return look(probabilities, scores, new["label"].to_numpy(), reference, test.weights, config)


def _test_predictions(store: Store, sources: Sources) -> Predictions:
    """Return the test predictions of the run that made a model. Raises InputError if there are none."""
    made_by = sources.run.run_id
    if sources.is_ensemble:
        return store.load(made_by, ENSEMBLE_PREDICTIONS)
    for classified in store.find(RunTags(stage="classify", inputs={"calibrate": made_by})):
        return store.load(classified.run_id, PREDICTIONS)
    raise InputError(
        "`watch` needs the test predictions of the champion, and the store has no classify run of calibrate run "
        f"{made_by}: run `kgcal classify --calibrators {made_by}`"
    )


def markdown(found: WatchResult) -> str:
    """Return the result of a look as Markdown: the findings and a table of metrics."""
    lines = [f"Check {found.number} of {found.model}: " + ("; ".join(found.findings) or "it fits."), ""]
    lines += ["| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value:.4g} |" for name, value in found.metrics.items())])


def _to_json(found: WatchResult) -> dict[str, object]:
    return {name: getattr(found, name) for name in ("dataset", "model", "metrics", "findings")}


def _read_look(path: Path) -> WatchResult:
    data = storage.read_json(path)
    return WatchResult(data["dataset"], data["model"], data["metrics"], tuple(data["findings"]), 0, "")


def _look_artifact(number: int) -> Artifact[WatchResult]:
    return Artifact("watch", f"looks/{number}.json", _read_look)
