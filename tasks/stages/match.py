"""match: estimate what candidates contain, so that calibrators can be fitted to them.

Candidates are the triples that a user wants probabilities for. Most or all of them have no label. Labels that belong to
the exam of the data set are not used.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import MatchConfig
from kgcore.config.base import HELD_OUT
from kgcore.data.datasets.base import md5_of
from kgcore.data.formats.base import check_readable
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.registries import STRATEGIES
from kgcore.workers import find_device
from tasks.stages.prepare import PREPARE
from tasks.stages.running import Stage, StageRef, StageRun, as_task
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import EMBEDDINGS, GRAPH, LABELLED, MATCHED, MIXTURE, MIXTURE_TRIPLES
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.resources import gpu_slot

if TYPE_CHECKING:
    from kgcore.mixture.judged import JudgedCandidates

log = logging.getLogger("kgcal")


def _code(config: MatchConfig) -> tuple[str, ...]:
    strategies = [STRATEGIES.module(name) for name in config.strategies]
    return ("kgcore.mixture.judged", "kgcore.mixture.calibrate", "kgcore.measure.report.plots", *strategies)


def _body(run: StageRun, config: MatchConfig) -> None:
    from kgcore.measure.report.plots import candidates_figure
    from kgcore.mixture.fit import MixtureOptions
    from kgcore.mixture.judged import mixture_triples
    from kgcore.mixture.matched import match

    graph, rng = run.load(GRAPH), np.random.default_rng(config.match_seed)
    judged = _read(config, graph)
    with gpu_slot(find_device(run.context.device)) as device:
        trained = run.load_model(EMBEDDINGS).to(device)
        drawn = mixture_triples(judged, trained, graph, config.strategies, config.match_eta, rng)
        data = drawn.data(trained.score(drawn.every))
    options = MixtureOptions(config.match_base_rate, width=config.match_width, replicates=config.match_replicates)
    matched = match(data, Path(config.candidates).name, options, rng, judged.left_out())
    run.save(MIXTURE, data)
    run.save(MIXTURE_TRIPLES, drawn.every)
    if judged.labelled.any():
        run.save(LABELLED, judged.triples[judged.labelled])
    run.save(MATCHED, matched)
    run.log_figure("candidates", candidates_figure(matched))
    run.log_metrics(matched.metrics())
    run.tag(RunTags(candidates=matched.source, note="\n\n".join(matched.sentences())))
    for sentence in matched.sentences():
        log.info("match     %s", sentence)


def _read(config: MatchConfig, graph: KnowledgeGraph) -> "JudgedCandidates":
    from kgcore.mixture.judged import check_enough, hidden_labels, read_judged

    if config.candidates in HELD_OUT:
        judged = hidden_labels(graph, config.candidates)
    else:
        judged = read_judged(Path(config.candidates), graph).without_exam(graph, config.match_exam_share)
    check_enough(judged, config.candidates)
    return judged


def check_file(config: MatchConfig) -> None:
    """Raise InputError if candidates are needed but not named, or if their file cannot be read."""
    if not config.candidates:
        raise InputError("candidates is empty: name a file of triples, valid or test")
    if config.candidates not in HELD_OUT:
        check_readable(Path(config.candidates))


@as_task("check_candidates")
def check_candidates(data: StageRef, config: MatchConfig) -> None:
    """Check the candidates before a model is trained.

    data  a prepare run

    Raises InputError if the candidates cannot be read, or if too few of them are in the graph.
    """
    check_file(config)
    _read(config, open_store().load(data.run_id, GRAPH))


def identity(config: MatchConfig) -> str:
    """Return a hash of the content of the file of candidates; '' for a held-out split."""
    check_file(config)
    return "" if config.candidates in HELD_OUT else md5_of(Path(config.candidates))


MATCH = Stage(
    name="match",
    summary="Estimate the kinds of mistakes among candidates, and their base rate.",
    title="match {config.candidates}",
    config=MatchConfig,
    body=_body,
    code=_code,
    normalise=lambda config: config.replace(candidates=Path(config.candidates).name),
    identity=identity,
    inputs={"data": PREPARE, "model": TRAIN},
    on_device=True,
)
