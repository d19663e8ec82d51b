"""score: compute f(t) for every held-out triple and corruption."""

import logging
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import CorruptConfig, EvidenceConfig, PrepareConfig, ScoreConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Corruptions, Mixture, subject_shares
from kgcore.embed.corruptions.held_out import Further
from kgcore.scores.search import searched_table
from kgcore.scores.table import SEARCHED, ScoreTable, score_table
from tasks.stages.corrupt import CORRUPT
from tasks.stages.running import Stage, StageRun
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import CORRUPTIONS, EMBEDDINGS, GRAPH, SCORES
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import check_room, find_device, gpu_slot

if TYPE_CHECKING:  # torch takes more than a second to load
    from kgcore.embed.models.trained import TrainedModel

log = logging.getLogger("kgcal")


def _body(run: StageRun, config: ScoreConfig) -> None:
    graph, made, trained = run.load(GRAPH), run.load(CORRUPTIONS), run.load_model(EMBEDDINGS)
    corruptions = sum(len(split.triples) for split in made.values())
    check_room(f"a table of {corruptions:,} scores", memory=40 * corruptions)  # triple, label and score: 8 bytes each
    further = _further(run, graph, made["valid"])
    with gpu_slot(find_device(run.context.device)) as device:
        trained = trained.to(device)
        table = score_table(graph, made, trained, run.config(PrepareConfig).split_rule.cold_column)
        if further is not None:
            table = _search(run, table, further, trained)
        if table.many_hits:
            table = _with_evidence(run, table, graph, trained)
    run.save(SCORES, table)
    run.log_metrics({"scored": len(table)})


def _with_evidence(run: StageRun, table: ScoreTable, graph: KnowledgeGraph, trained: "TrainedModel") -> ScoreTable:
    """Add log-odds of the evidence for hidden facts among the corruptions."""
    from kgcore.combiners.hidden import with_hidden_log_odds
    from kgcore.evidence.base import Source

    rng = np.random.default_rng([run.config(CorruptConfig).calibration_seed, 2])
    return with_hidden_log_odds(table, Source(graph, trained), EvidenceConfig().evidence, rng)


def _further(run: StageRun, graph: KnowledgeGraph, drawn: Corruptions) -> Further | None:
    """Return the corruptions to look at beyond the draws of the corrupt run; None if these are enough, or all."""
    config, positives = run.config(CorruptConfig), graph.valid.positives
    looks = config.looks_at(len(positives))
    if looks is None or drawn.weights is not None:
        return None
    strategy = Mixture(graph, config.calibration_strategy)
    if strategy.by_model:
        strategy.see(run.load_model(EMBEDDINGS))
    shares = subject_shares(graph, config.calibration_sides)
    known = graph.known if config.calibration_filtered else None
    rng = np.random.default_rng([config.calibration_seed, 1])  # not the stream of the draws
    return Further(positives, config.eta(len(positives)), looks, strategy, shares, known, rng)


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
