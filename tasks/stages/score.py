"""score: f(t) of every held-out triple and corruption."""

from kgcore import storage
from kgcore.config import ScoreConfig
from kgcore.score_table import score_table
from tasks.stages.base import Context, StageRef, StageRun, run_stage, stage_task
from tasks.workspace.resources import find_device, gpu_slot


@stage_task
def score_triples(
    model: StageRef, corruptions: StageRef, config: ScoreConfig = ScoreConfig(), context: Context = Context()
) -> StageRef:
    """Score the held-out splits and the corruptions. Artifact: scores.parquet."""

    def body(run: StageRun) -> None:
        graph = run.load("prepare", "graph", storage.read_graph)
        made = run.load("corrupt", "corruptions.parquet", storage.read_corruptions)
        [trained] = run.load_models("train", storage.read_model)
        with gpu_slot(find_device(context.device)) as device:
            table = score_table(graph, made, trained.to(device))
        storage.write_scores(run.folder / "scores.parquet", table)
        run.log_metrics({"scored": len(table)})

    code = ("kgcore.score_table",)  # the scoring function's own code is in the key of the train run
    return run_stage("score", config, (model, corruptions), code, body, context)
