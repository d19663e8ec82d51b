"""prepare: from a name or a folder to a validated, numbered graph; and from newly labelled triples to a new one."""

import logging
from collections.abc import Mapping
from pathlib import Path

from kgcore.config import PrepareConfig
from kgcore.datasets.base import find_dataset, md5_of
from kgcore.datasets.fetch import fetch
from kgcore.datasets.labels import read_labels, with_labels
from kgcore.datasets.prepare import Prepared, prepare
from kgcore.graph import SPLITS
from kgcore.registries import DATASETS
from tasks.stages.base import Stage
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import StageRun, config_of, run_stage
from tasks.stages.task import as_task
from tasks.tracking.artifacts import COUNTS, GRAPH
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.store import open_store
from tasks.workspace.progress import DownloadBar
from tasks.workspace.settings import ensure_home, mirror

log = logging.getLogger("kgcal")


def _body(run: StageRun, config: PrepareConfig) -> None:
    logging.getLogger("pooch").setLevel(logging.ERROR)  # the progress bar shows the same
    spec = find_dataset(config.dataset)
    folder = fetch(spec, ensure_home() / "datasets", mirror(), config.size, config.graph_seed, progress=DownloadBar)
    prepared = prepare(spec, folder)
    log_dropped(prepared.counts)
    log_prepared(run, prepared, spec.url or spec.title)


def _code(config: PrepareConfig) -> list[str]:
    code = ["kgcore.datasets.prepare", "kgcore.datasets.fetch"]
    return code if find_dataset(config.dataset).folder else [*code, DATASETS.module(config.dataset)]


def _normalise(config: PrepareConfig) -> PrepareConfig:
    """The name of a folder in place of its path; size and seed for generated data sets alone."""
    spec = find_dataset(config.dataset)
    return config if spec.generate else PrepareConfig(dataset=spec.name)


PREPARE = Stage(
    name="prepare",
    summary="Fetch, verify, validate and number a data set.",
    title="prepare {config.dataset}",
    config=PrepareConfig,
    body=_body,
    code=_code,
    normalise=_normalise,
    identity=lambda config: find_dataset(config.dataset).identity(),
)


@as_task("add_labels")
def add_labels(data: StageRef, labels: Path, instead: bool = False, context: Context = Context()) -> StageRef:
    """The graph of a prepare run with newly labelled triples in its validation split, as a prepare run.

    labels   file of the labelled triples. Labels that were added to the graph earlier are not kept: the file has all
    instead  whether the labelled triples replace the validation split
    """
    data = origin(data)
    config = config_of(PrepareConfig, open_store().get(data.run_id))
    identity = f"labels {md5_of(labels)} {instead}"  # the file's content, never its path

    def body(run: StageRun) -> None:
        prepared = with_labels(run.load(GRAPH), read_labels(labels), instead)
        words = {"rows": "labelled", "with_unseen": "of unknown names", "not_held_out": "in train or test"}
        parts = [f"{prepared.counts[f'labels_{name}']:,} {word}" for name, word in words.items()]
        used, held = prepared.counts["labels_used"], prepared.counts["labels_known"]
        log.info(
            "%s: %s, %s used, %s of them as in valid before", labels.name, ", ".join(parts), f"{used:,}", f"{held:,}"
        )
        log_prepared(run, Prepared(prepared.graph, run.load(COUNTS) | prepared.counts), labels.name)
        run.tag(RunTags(labels=labels.name))

    return run_stage("prepare", config, (data,), ("kgcore.datasets.labels",), body, context, identity)


def log_dropped(counts: Mapping[str, int]) -> None:
    """Log which rows of the files are left out, and why."""
    words = {"duplicates": "duplicates", "with_unseen": "with a name that train does not have"}
    for split in SPLITS:
        dropped = {word: counts.get(f"{split}_{name}", 0) for name, word in words.items()}
        parts = [f"{number:,} {word}" for word, number in dropped.items() if number]
        if parts:
            rows = f"{counts[f'{split}_rows']:,}"
            log.info("prepare   %s: of %s rows left out: %s", split, rows, ", ".join(parts))


def origin(data: StageRef) -> StageRef:
    """The prepare run that read the data set's own files."""
    earlier = open_store().get(data.run_id).tags.inputs.get("prepare")
    return StageRef("prepare", earlier) if earlier else data


def log_prepared(run: StageRun, prepared: Prepared, source: str) -> None:
    """Log the graph and its counts, as artifacts, metrics, and the run's data set."""
    graph, counts = prepared.graph, prepared.counts
    run.save(GRAPH, graph)
    run.save(COUNTS, counts)
    dataset = DatasetId(graph.name, graph.fingerprint()[:16])
    run.store.log_dataset(run.run_id, dataset, source, counts)
    run.tag(RunTags(dataset=dataset.name, digest=dataset.digest, test=graph.test_fingerprint()[:16]))
    run.store.log_metrics(run.run_id, counts, dataset=dataset)
