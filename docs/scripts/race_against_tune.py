"""Compare the race of `kgcal run` on a folder of triples with a search over the models by the rules of `kgcal tune`.

    python docs/scripts/race_against_tune.py OUT FOLDER... > table.md

For each FOLDER, OUT/NAME-auto.json has the results of `kgcal run --dataset FOLDER`, OUT/NAME-default.json those with
`--preset default`, OUT/NAME-EPOCHS-best.json those of the best trial, and OUT/NAME-EPOCHS.db the trials.
OUT/seconds.json has the CPU times. What is there is not computed again, so the script can be stopped and started again.

The search has one study for all MODELS: the model is one more choice. The ranges, the sampler, the pruner, and the
settings with which a model starts are those of `kgcal tune --model MODEL`. The first trials are the initial settings of
each model, the next ones the neighbours of the best of these. The race and the search maximise the same figure: the
mean gain on validation, with the same halves, the same negatives and the same missing facts.
"""

import argparse
import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from optuna import Study, Trial
from timed_runs import Results, Runs

from kgcore.config import (
    ASSUMED_BASE_RATE,
    CorruptConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    TuneConfig,
    presets,
)
from kgcore.config.base import GAIN
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.registries import MODELS
from kgcore.wings.tuning.objective import SearchObjective
from kgcore.wings.tuning.search import Plan, search
from kgcore.wings.tuning.space import Drawn, Space
from kgcore.wings.tuning.study import begun, best, completed, config_of, open_study
from tasks.jobs.pipeline import run_command

# model -> why it is not searched. An epoch of TransE on UMLS takes .03 s of CPU time
LEFT_OUT = {
    **dict.fromkeys(("conve", "convkb", "capse", "kbgat"), "an epoch takes 140 to 230 times as long as one of TransE"),
    **dict.fromkeys(("rescal", "tucker"), "an epoch takes 18 to 32 times as long as one of TransE"),
    "hole_complex": "it is ComplEx with another factor",
}
SEARCHED = (*TuneConfig().search, "cohort_weight")
NEIGHBOURS = "neighbours"  # the mark of a study whose best model has its neighbours in the queue
CPU = torch.device("cpu")


@dataclass(frozen=True)
class AnyModel(Space):
    """The ranges of a search over models: `bases` has the initial settings of each."""

    bases: Mapping[str, TrainConfig]

    def of(self, model: str) -> Space:
        """Return the ranges of a model."""
        return Space(self.bases[model], self.searched, self.most_epochs)

    def firsts(self) -> list[Drawn]:
        """Return the initial settings of each model."""
        return [self.of(model).start() | {"model": model} for model in self.bases]

    def suggest(self, trial: Trial) -> TrainConfig:
        """Draw a model and its settings."""
        return self.of(trial.suggest_categorical("model", [*self.bases])).suggest(trial)


def initial(folder: Path, model: str) -> PipelineConfigs:
    """Return the settings with which `kgcal tune --dataset FOLDER --model MODEL` starts."""
    given = PipelineConfigs(PrepareConfig(dataset=str(folder)), TrainConfig(model=model))
    return presets.resolve(None, given, races=False).configs


def space_of(folder: Path, models: Sequence[str], most_epochs: int) -> AnyModel:
    """Return the ranges of a search over models on a folder."""
    bases = {model: initial(folder, model).train for model in models}
    return AnyModel(bases[models[0]], SEARCHED, most_epochs, bases)


def run_trials(study: Study, space: AnyModel, graph: KnowledgeGraph, objective: SearchObjective, trials: int) -> None:
    """Run trials until the study has `trials`: the initial settings of each model, the neighbours of the best, others.

    The study has the initial settings in its queue.
    """
    for total in (min(len(space.bases), trials), trials):
        search(study, graph, objective, space, Plan(total, math.inf, 0), CPU)
        if NEIGHBOURS not in study.user_attrs:
            model = config_of(best(study)).model
            for values in space.of(model).starts()[1:]:
                study.enqueue_trial(values | {"model": model})
            study.set_user_attr(NEIGHBOURS, model)


def searched(runs: Runs, folder: Path, space: AnyModel, trials: int) -> Study:
    """Return the study of a folder, with all its trials."""
    name = f"{folder.name}-{space.most_epochs}"
    study = open_study(runs.path(f"{name}.db"), GAIN, space.firsts())
    if len(begun(study)) < trials:
        graph = without_test(folder)
        objective = SearchObjective(graph, GAIN, CorruptConfig(), ASSUMED_BASE_RATE, np.random.default_rng(0))
        started = time.process_time()
        try:
            run_trials(study, space, graph, objective, trials)
        finally:
            runs.spent(name, time.process_time() - started)
    return study


def without_test(folder: Path) -> KnowledgeGraph:
    """Return the graph of a folder without its test split."""
    spec = find_dataset(str(folder))
    graph = prepare(spec, folder).graph
    return replace(graph, test=Split(graph.test.triples[:0], graph.test.labels[:0]))


def lowest(results: Results) -> float:
    """Return the Brier score on test of the best calibrator of a run."""
    metrics = results["metrics"]
    found = [own["brier"] for name in ("ground_truth", "synthetic") for own in metrics.get(name, {}).values()]
    return float(min(found))


def row(runs: Runs, folder: Path, models: Sequence[str], trials: int, most_epochs: int) -> str:
    """Return the row of a folder: what the race has, what the search has, and the CPU times."""
    name, dataset = folder.name, ["--dataset", str(folder)]
    auto = runs.run(f"{name}-auto", dataset)
    usual = runs.run(f"{name}-default", [*dataset, "--preset", "default"])
    space = space_of(folder, models, most_epochs)
    study = searched(runs, folder, space, trials)
    settings = config_of(best(study))
    command = run_command(vars(replace(initial(folder, settings.model), train=settings)).values())
    again = runs.run(f"{name}-{most_epochs}-best", shlex.split(command)[2:])
    winner = auto["race"]["rows"][0]
    seconds, tests = runs.seconds, [lowest(results) for results in (auto, again, usual)]
    ranks = [f"{results['ranks']['mrr']:.3f}" for results in (auto, again, usual)]
    times = f"{seconds[f'{name}-auto']:.0f} s", f"{seconds[f'{name}-auto'] / seconds[f'{name}-default']:.1f}"
    cells = [name, winner["name"], *compared(winner["values"][-1][1], study), *(f"{brier:.4f}" for brier in tests)]
    return "| " + " | ".join([*cells, *ranks, *times, *spent(runs, name, study, most_epochs)]) + " |"


def compared(value: float, study: Study) -> list[str]:
    """Return the cells of the race's gain, the best trial's, and by how many points the race is better."""
    trial = best(study)
    gain = trial.value or math.nan
    return [f"{100 * value:.1f}", f"{config_of(trial).model}", f"{100 * gain:.1f}", f"{100 * (value - gain):+.1f}"]


def spent(runs: Runs, name: str, study: Study, most_epochs: int) -> list[str]:
    """Return the cells of a search: its CPU time without killed calls, and how many trials were trained to the end."""
    seconds = runs.seconds.get(f"{name}-{most_epochs}", math.nan)
    return [f"{seconds:.0f} s", f"{len(completed(study))} of {len(begun(study))}"]


HEADER = (
    "| graph | race: winner | gain | search: best | gain | race to search | race: Brier score | search | default "
    "| race: MRR | search | default | race: CPU time | to default | search: CPU time | to the end |"
)


def main(arguments: list[str]) -> None:
    """Print the table of the folders."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=TuneConfig().trials)
    parser.add_argument("--most-epochs", type=int, default=TuneConfig().most_epochs)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    runs = Runs(options.out)
    models = [model for model in MODELS.names() if model not in LEFT_OUT]
    print(HEADER + "\n" + "|---" * (HEADER.count("|") - 1) + "|")
    for folder in options.folders:
        print(row(runs, folder, models, options.trials, options.most_epochs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
