"""corrupt: synthetic negatives."""

import numpy as np

from kgcore import storage
from kgcore.config import CorruptConfig
from kgcore.corruptions import STRATEGIES
from kgcore.corruptions.base import corrupt_held_out
from tasks.stage import Context, StageRef, StageRun, run_stage, stage_task


@stage_task
def corrupt_triples(data: StageRef, config: CorruptConfig, context: Context = Context()) -> StageRef:
    """Corrupt the validation positives, and the test positives where no negative is labelled.
    Artifact: corruptions.parquet."""
    code = ("kgcore.corruptions.base", STRATEGIES.module(config.strategy))

    def body(run: StageRun) -> None:
        graph = run.load("prepare", "graph", storage.read_graph)
        rng = np.random.default_rng(config.corruption_seed)
        strategy = STRATEGIES.get(config.strategy)(graph)
        made = corrupt_held_out(graph, config.calibration_eta, strategy, rng, config.sides, config.filtered)
        storage.write_corruptions(run.folder / "corruptions.parquet", made)
        for split, corruptions in made.items():
            counts = {"corruptions": len(corruptions.triples), "known_facts_dropped": corruptions.dropped}
            run.log_metrics({f"{split}.{name}": value for name, value in counts.items()})

    return run_stage("corrupt", config, (data,), code, body, context)
