"""prepare: from a name or a folder to a validated, numbered graph; and from newly labelled triples to a new one."""

import logging
from collections.abc import Mapping
from pathlib import Path

from kgcore import storage
from kgcore.config import PrepareConfig
from kgcore.datasets.base import find_dataset, md5_of
from kgcore.datasets.fetch import fetch
from kgcore.datasets.labels import read_labels, with_labels
from kgcore.datasets.prepare import Prepared, prepare
from kgcore.graph import SPLITS
from kgcore.registries import DATASETS
from tasks.stages.base import Context, StageRef, StageRun, config_of, inputs, log, run_stage, stage_task
from tasks.tracking.store import open_store
from tasks.workspace.progress import DownloadBar
from tasks.workspace.settings import ensure_home, mirror


@stage_task
def prepare_data(config: PrepareConfig, context: Context = Context()) -> StageRef:
    """Fetch, verify, read, validate and number a data set. Artifacts: graph/, counts.json."""
    spec = find_dataset(config.dataset)
    key_config = config if spec.generate else PrepareConfig(dataset=spec.name)  # size and seed concern no other
    code = ["kgcore.datasets.prepare", "kgcore.datasets.fetch"]
    if spec.folder is None:
        code.append(DATASETS.module(config.dataset))

    def body(run: StageRun) -> None:
        logging.getLogger("pooch").setLevel(logging.ERROR)  # the progress bar says what it would
        folder = fetch(spec, ensure_home() / "datasets", mirror(), config.size, config.graph_seed, progress=DownloadBar)
        prepared = prepare(spec, folder)
        tell_dropped(prepared.counts)
        log_prepared(run, prepared, spec.url or spec.title)

    return run_stage("prepare", key_config, (), code, body, context, identity=spec.identity())


@stage_task
def add_labels(data: StageRef, labels: Path, instead: bool = False, context: Context = Context()) -> StageRef:
    """The graph of a prepare run with the newly labelled triples of a file in its validation split, as a prepare run.

    Labels that were added to the graph before are not kept: the file has all that are wanted.
    """
    data = origin(data)
    config = config_of(PrepareConfig, data)
    identity = f"labels {md5_of(labels)} {instead}"  # the file's content, never its path

    def body(run: StageRun) -> None:
        graph = run.load("prepare", "graph", storage.read_graph)
        before = run.load("prepare", "counts.json", storage.read_json)
        prepared = with_labels(graph, read_labels(labels), instead)
        words = {"rows": "labelled", "with_unseen": "of unknown names", "not_held_out": "in train or test"}
        told = ", ".join(f"{prepared.counts[f'labels_{name}']:,} {word}" for name, word in words.items())
        used, held = prepared.counts["labels_used"], prepared.counts["labels_known"]
        log.info("%s: %s, %s used, %s of them as in valid before", labels.name, told, f"{used:,}", f"{held:,}")
        log_prepared(run, Prepared(prepared.graph, before | prepared.counts), labels.name)
        run.store.log_tags(run.run_id, {"kgcal.labels": labels.name})

    return run_stage("prepare", config, (data,), ("kgcore.datasets.labels",), body, context, identity)


def tell_dropped(counts: Mapping[str, int]) -> None:
    """Say which rows of the files are not used, and why."""
    words = {"duplicates": "twice", "with_unseen": "with a name that train does not have"}
    for split in SPLITS:
        dropped = {word: counts.get(f"{split}_{name}", 0) for name, word in words.items()}
        told = [f"{number:,} {word}" for word, number in dropped.items() if number]
        if told:
            log.info("prepare   %s: of %s rows left out: %s", split, f"{counts[f'{split}_rows']:,}", ", ".join(told))


def origin(data: StageRef) -> StageRef:
    """The prepare run that read the data set's own files."""
    earlier = inputs(open_store().run(data.run_id)).get("prepare")
    return StageRef("prepare", earlier) if earlier else data


def log_prepared(run: StageRun, prepared: Prepared, source: str) -> None:
    """The graph and its counts, as artifacts, metrics, and the run's data set."""
    graph, counts = prepared.graph, prepared.counts
    storage.write_graph(run.folder / "graph", graph)
    storage.write_json(run.folder / "counts.json", counts)
    dataset = (graph.name, graph.fingerprint()[:16])
    run.store.log_dataset(run.run_id, dataset, source, counts)
    tags = {"kgcal.dataset": dataset[0], "kgcal.digest": dataset[1], "kgcal.test": graph.test_fingerprint()[:16]}
    run.store.log_tags(run.run_id, tags)
    run.store.log_metrics(run.run_id, counts, dataset=dataset)
