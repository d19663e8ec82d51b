"""corrupt: synthetic negatives."""

import numpy as np

from kgcore import storage
from kgcore.config import CorruptConfig
from kgcore.corruptions.audit import audit
from kgcore.corruptions.base import corrupt_held_out
from kgcore.corruptions.mixture import Mixture
from kgcore.registries import STRATEGIES
from tasks.stages.base import Context, StageRef, StageRun, run_stage, stage_task


@stage_task
def corrupt_triples(
    data: StageRef, model: StageRef | None, config: CorruptConfig, context: Context = Context()
) -> StageRef:
    """Corrupt the validation positives, and the test positives where no negative is labelled; `model` concerns
    strategies that draw by one. Artifacts: corruptions.parquet, audit.json."""
    upstream = (data, model) if model is not None and by_model(config) else (data,)
    modules = [STRATEGIES.module(name) for name in config.calibration_strategy]
    code = ("kgcore.corruptions.base", "kgcore.corruptions.mixture", "kgcore.corruptions.audit", *modules)

    def body(run: StageRun) -> None:
        graph = run.load("prepare", "graph", storage.read_graph)
        strategy, rng = Mixture(graph, config.calibration_strategy), np.random.default_rng(config.calibration_seed)
        if strategy.by_model:
            [trained] = run.load_models("train", storage.read_model)
            strategy.see(trained)
        made = corrupt_held_out(
            graph, config.calibration_eta, strategy, rng, config.calibration_sides, config.calibration_filtered
        )
        storage.write_corruptions(run.folder / "corruptions.parquet", made)
        audits = {split: audit(graph, split, corruptions) for split, corruptions in made.items()}
        storage.write_json(run.folder / "audit.json", audits)
        for split, figures in audits.items():
            run.log_metrics({f"{split}.{name}": value for name, value in figures.items()})

    return run_stage("corrupt", config, upstream, code, body, context)


def by_model(config: CorruptConfig) -> bool:
    """Whether the synthetic negatives are drawn by what a model makes of the triples."""
    return any(STRATEGIES.get(name).by_model for name in config.calibration_strategy)
