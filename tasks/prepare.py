"""prepare: from a name or a folder to a validated, numbered graph."""

import logging

from kgcore import storage
from kgcore.config import PrepareConfig
from kgcore.datasets import DATASETS
from kgcore.datasets.base import find_dataset
from kgcore.datasets.fetch import fetch
from kgcore.datasets.prepare import prepare
from tasks.progress import DownloadBar
from tasks.settings import ensure_home, mirror
from tasks.stage import Context, StageRef, StageRun, run_stage, stage_task


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
        graph, counts = prepared.graph, prepared.counts
        storage.write_graph(run.folder / "graph", graph)
        storage.write_json(run.folder / "counts.json", counts)
        dataset = (graph.name, graph.fingerprint()[:16])
        run.store.log_dataset(run.run_id, dataset, spec.url or spec.title, counts)
        run.store.log_tags(run.run_id, {"kgcal.dataset": dataset[0], "kgcal.digest": dataset[1]})
        run.store.log_metrics(run.run_id, counts, dataset=dataset)

    return run_stage("prepare", key_config, (), code, body, context, identity=spec.identity())
