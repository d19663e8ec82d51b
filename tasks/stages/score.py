"""score: compute f(t) for every held-out triple and corruption."""

import logging
from typing import TYPE_CHECKING

from kgcore.config import CorruptConfig, PrepareConfig, ScoreConfig
from kgcore.embed.corruptions.held_out import Further
from kgcore.scores.search import searched_table
from kgcore.scores.table import SEARCHED, ScoreTable, score_table
from kgcore.workers import find_device
from tasks.stages.corrupt import CORRUPT
from tasks.stages.running import Stage, StageRun
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import CORRUPTIONS, EMBEDDINGS, GRAPH, SCORES
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import check_room, gpu_slot

if TYPE_CHECKING:  # torch takes more than a second to load
    from kgcore.embed.models.trained import TrainedModel

log = logging.getLogger("kgcal")


def _body(run: StageRun, config: ScoreConfig) -> None:
    graph, made, trained = run.load(GRAPH), run.load(CORRUPTIONS), run.load_model(EMBEDDINGS)
    corruptions = sum(len(split.triples) for split in made.values())
    check_room(f"a table of {corruptions:,} scores", memory=40 * corruptions)  # triple, label and score: 8 bytes each
    drawn = run.config(CorruptConfig)
    further = Further.of(graph, drawn, made["valid"], trained)
    with gpu_slot(find_device(run.context.device)) as device:
        trained = trained.to(device)
        table = score_table(graph, made, trained, run.config(PrepareConfig).split_rule.cold_column)
        if further is not None:
            table = _search(run, table, further, trained)
        if table.many_hits:
            from kgcore.combiners.hidden import with_hidden_facts  # loads LightGBM

            table = with_hidden_facts(table, graph, trained, drawn)
    run.save(SCORES, table)
    run.log_metrics({"scored": len(table)})


def _search(run: StageRun, table: ScoreTable, further: Further, trained: "TrainedModel") -> ScoreTable:
    """Add the highest scores among further corruptions to the table, and log their number."""
    of = "all" if further.every else "drawn"
    log.info("score     valid: the base rate needs about %s corruptions (%s)", f"{further.most:,}", of)
    with progress_bar("search", further.most) as bar:
        found = searched_table(table, further, trained, on_block=lambda rows: bar(min(rows, further.most)))
    figures = found.search_figures()
    looked, kept = (f"{figures.get(name, 0):,.0f}" for name in ("looked_at", SEARCHED))
    log.info("score     valid: looked at %s corruptions, kept the %s with the highest scores", looked, kept)
    run.log_metrics(figures)
    return found


SCORE = Stage(
    name="score",
    summary="Score the held-out triples and the corruptions with a trained model.",
    title="score by {model}",
    config=ScoreConfig,
    body=_body,
    # the key of the train run contains the code of the model, that of the corrupt run the code of the strategies
    code=lambda config: ("kgcore.scores.table", "kgcore.scores.search", "kgcore.combiners.hidden"),
    inputs={"model": TRAIN, "corruptions": CORRUPT},
    on_device=True,
)
