"""score: compute f(t) for every held-out triple and corruption."""

from kgcore.config import ScoreConfig
from kgcore.score_table import score_table
from tasks.stages.base import Stage
from tasks.stages.corrupt import CORRUPT
from tasks.stages.running import StageRun
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import CORRUPTIONS, EMBEDDINGS, GRAPH, SCORES
from tasks.workspace.resources import find_device, gpu_slot


def _body(run: StageRun, config: ScoreConfig) -> None:
    graph, made, trained = run.load(GRAPH), run.load(CORRUPTIONS), run.load_model(EMBEDDINGS)
    with gpu_slot(find_device(run.context.device)) as device:
        table = score_table(graph, made, trained.to(device))
    run.save(SCORES, table)
    run.log_metrics({"scored": len(table)})


SCORE = Stage(
    name="score",
    summary="Score the held-out triples and the corruptions with a trained model.",
    title="score by {model}",
    config=ScoreConfig,
    body=_body,
    code=lambda config: ("kgcore.score_table",),  # the key of the train run contains the code of the model
    inputs={"model": TRAIN, "corruptions": CORRUPT},
    on_device=True,
)
