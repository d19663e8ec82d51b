"""rank: filtered ranks of the test positives; with train the only stage that needs the model at length."""

from kgcore import storage
from kgcore.config import RankConfig
from kgcore.metrics.ranks import rank_metrics
from tasks.stages.base import Context, StageRef, StageRun, run_stage, stage_task
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device, gpu_slot


@stage_task
def rank_triples(model: StageRef, config: RankConfig = RankConfig(), context: Context = Context()) -> StageRef:
    """Rank the test positives among all their corruptions. Artifacts: ranks.parquet, ranks.json."""

    def body(run: StageRun) -> None:
        from kgcore.ranking import filtered_ranks  # loads torch

        graph = run.load("prepare", "graph", storage.read_graph)
        [trained] = run.load_models("train", storage.read_model)
        positives = graph.test.positives
        with gpu_slot(find_device(context.device)) as device, progress_bar("rank", len(positives)) as bar:
            ranks = filtered_ranks(trained.to(device), positives, graph.all_known, on_block=bar)
        storage.write_ranks(run.folder / "ranks.parquet", positives, ranks)
        metrics = rank_metrics(ranks)
        storage.write_json(run.folder / "ranks.json", metrics)
        run.log_metrics(metrics, model_id=run.model_ids("train")[0])

    return run_stage("rank", config, (model,), ("kgcore.ranking", "kgcore.metrics.ranks"), body, context)
