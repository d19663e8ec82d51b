"""corrupt: generate the corruptions that are used as negatives in calibration."""

import logging

from kgcore.config import CorruptConfig
from kgcore.embed.corruptions.held_out import audit, corrupted
from kgcore.registries import STRATEGIES
from tasks.stages.prepare import PREPARE
from tasks.stages.running import Stage, StageRun
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import CORRUPTION_AUDIT, CORRUPTIONS, EMBEDDINGS, GRAPH
from tasks.workspace.resources import check_room

log = logging.getLogger("kgcal")


def by_model(config: CorruptConfig) -> bool:
    """Return whether a strategy in these settings needs a trained model to draw corruptions."""
    return any(STRATEGIES.get(name).by_model for name in config.calibration_strategy)


def _code(config: CorruptConfig) -> tuple[str, ...]:
    strategies = [STRATEGIES.module(name) for name in config.calibration_strategy]
    return (
        "kgcore.embed.corruptions.held_out",
        "kgcore.embed.corruptions.base",
        "kgcore.embed.corruptions.held_out",
        *strategies,
    )


def _body(run: StageRun, config: CorruptConfig) -> None:
    graph, model = run.load(GRAPH), run.load_model(EMBEDDINGS) if by_model(config) else None
    drawn = config.eta(len(graph.valid.positives)) * len(graph.valid.positives)
    check_room(f"a table of {drawn:,} corruptions", memory=24 * drawn)  # three numbers of 8 bytes
    made = corrupted(graph, config, model)
    if made["valid"].weights is not None:
        found = f"{len(made['valid'].triples):,}"
        log.info("corrupt   valid: all corruptions of each positive, %s, weighted by their probabilities", found)
    run.save(CORRUPTIONS, made)
    audits = {split: audit(graph, split, corruptions) for split, corruptions in made.items()}
    run.save(CORRUPTION_AUDIT, audits)
    for split, figures in audits.items():
        run.log_metrics({f"{split}.{name}": value for name, value in figures.items()})


CORRUPT = Stage(
    name="corrupt",
    summary="Corrupt the validation positives, and also the test positives if the data set has no labelled negatives.",
    title="corrupt {data}",
    config=CorruptConfig,
    body=_body,
    normalise=CorruptConfig.settled,
    code=_code,
    inputs={"data": PREPARE, "model": TRAIN},
    needs={"model": by_model},
)
