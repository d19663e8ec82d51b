"""rank: compute the filtered ranks of test positives. A positive with a confidence counts by it.

Only this stage and train compute with the model for a long time.
"""

from kgcore.config import RankConfig
from kgcore.measure.metrics.classification import rank_metrics
from kgcore.workers import find_device
from tasks.stages.running import Stage, StageRun
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import EMBEDDINGS, GRAPH, RANK_METRICS, RANKS
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import gpu_slot


def _body(run: StageRun, config: RankConfig) -> None:
    from kgcore.embed.ranking import filtered_ranks, spread  # loads torch

    graph, trained = run.load(GRAPH), run.load_model(EMBEDDINGS)
    every, truth = graph.test.positives, graph.test.truth[graph.test.labels == 1]
    ranked = spread(len(every), config.most(len(graph.entities)))
    positives = every[ranked]
    with gpu_slot(find_device(run.context.device)) as device, progress_bar("rank", len(positives)) as bar:
        ranks = filtered_ranks(trained.to(device), positives, graph.all_known, on_block=bar)
    run.save(RANKS, (positives, ranks))
    metrics = rank_metrics(ranks, truth[ranked])
    run.save(RANK_METRICS, metrics)
    run.log_model_metrics({run.model_ids("train")[0]: metrics})


RANK = Stage(
    name="rank",
    summary="Rank test positives among all their corruptions with a trained model.",
    title="rank by {model}",
    config=RankConfig,
    body=_body,
    code=lambda config: ("kgcore.embed.ranking", "kgcore.measure.metrics.classification"),
    inputs={"model": TRAIN},
    on_device=True,
)
