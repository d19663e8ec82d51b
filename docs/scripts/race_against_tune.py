"""Compare the race of `kgcal run` on a folder of triples with a search over the models by the rules of `kgcal tune`.

    python docs/scripts/race_against_tune.py OUT FOLDER... > table.md
    python docs/scripts/race_against_tune.py --most-epochs 33 OUT fb13-12000   # a graph of portfolio_pool.py

For each FOLDER, OUT/NAME-auto.json has the results of `kgcal run --dataset FOLDER`, OUT/NAME-default.json those with
`--preset default`, OUT/NAME-EPOCHS-best.json those of the best trial, and OUT/NAME-EPOCHS.db the trials.
OUT/seconds.json has the CPU times. What is there is not computed again, so the script can be stopped and started again.

The search has one study for all MODELS: the model is one more choice. The ranges, the sampler, the pruner, and the
settings with which a model starts are those of `kgcal tune --model MODEL`. The first trials are the initial settings of
each model, the next ones the neighbours of the best of these. The race and the search minimise the same figure: the
cross-fitted Brier score on validation, with the same halves and the same negatives.

A whole data set takes long. For a graph of docs/scripts/portfolio_pool.py, only the search is run: the race is repeated
on docs/scripts/portfolio_trials.csv, and the best of the 50 recorded trials is a further column.
"""

import argparse
import math
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from optuna import Study, Trial
from portfolio_choice import USUAL, raced, read
from portfolio_pool import GRAPHS, load
from timed_runs import Results, Runs

from kgcore.config import (
    ASSUMED_BASE_RATE,
    CorruptConfig,
    PipelineConfigs,
    PipelineGiven,
    PrepareGiven,
    TrainConfig,
    TrainGiven,
    TuneConfig,
    presets,
)
from kgcore.config.portfolio import PORTFOLIO
from kgcore.datasets.base import find_dataset
from kgcore.datasets.prepare import prepare
from kgcore.graph import KnowledgeGraph, Split
from kgcore.registries import MODELS
from kgcore.tuning.objective import Objective
from kgcore.tuning.search import Plan, search
from kgcore.tuning.space import Drawn, Space
from kgcore.tuning.study import begun, best, completed, config_of, open_study
from tasks.jobs.command import run_command
from tasks.workspace.settings import mirror

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
    given = PipelineGiven(PrepareGiven(dataset=str(folder)), TrainGiven(model=model))
    return presets.resolve(None, given, races=False).configs


def space_of(folder: Path, models: Sequence[str], most_epochs: int) -> AnyModel:
    """Return the ranges of a search over models on a folder."""
    bases = {model: initial(folder, model).train for model in models}
    return AnyModel(bases[models[0]], SEARCHED, most_epochs, bases)


def run_trials(study: Study, space: AnyModel, graph: KnowledgeGraph, objective: Objective, trials: int) -> None:
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


def searched(runs: Runs, name: str, load_graph: Callable[[], KnowledgeGraph], space: AnyModel, trials: int) -> Study:
    """Return the study of a graph, with all its trials."""
    name = f"{name}-{space.most_epochs}"
    study = open_study(runs.path(f"{name}.db"), "brier", space.firsts())
    if len(begun(study)) < trials:
        graph = load_graph()
        objective = Objective(graph, "brier", CorruptConfig(), ASSUMED_BASE_RATE, np.random.default_rng(0))
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
    study = searched(runs, name, lambda: without_test(folder), space, trials)
    settings = config_of(best(study))
    command = run_command(vars(replace(initial(folder, settings.model), train=settings)).values())
    again = runs.run(f"{name}-{most_epochs}-best", shlex.split(command)[2:])
    winner = auto["race"]["rows"][0]
    seconds, tests = runs.seconds, [lowest(results) for results in (auto, again, usual)]
    times = f"{seconds[f'{name}-auto']:.0f} s", f"{seconds[f'{name}-auto'] / seconds[f'{name}-default']:.1f}"
    cells = [name, winner["name"], *compared(winner["values"][-1][1], study), f"{tests[0]:.4f}", f"{tests[1]:.4f}"]
    cells += [f"{100 * (tests[0] / tests[1] - 1):+.1f} %", f"{tests[2]:.4f}", *times]
    return "| " + " | ".join([*cells, *spent(runs, name, study, most_epochs)]) + " |"


def part_row(runs: Runs, name: str, models: Sequence[str], trials: int, most_epochs: int) -> str:
    """Return the row of a graph of docs/scripts/portfolio_pool.py, with the race repeated on the recorded trials."""
    table = read(Path(__file__).with_name("portfolio_trials.csv"))
    place, members = table.graphs.index(name), [table.names.index(own) for own in (USUAL, *PORTFOLIO)]
    value = float(raced(table.values[place], table.models, members))
    last = table.values[place, :, -1]
    winner = next(table.names[member] for member in members if last[member] == value)
    space = space_of(Path(name), models, most_epochs)
    study = searched(runs, name, lambda: load(name, runs.path("."), runs.path("datasets"), mirror()), space, trials)
    cells = [name, winner, *compared(value, study), f"{table.names[int(last.argmin())]}", f"{last.min():.4f}"]
    return "| " + " | ".join([*cells, *spent(runs, name, study, most_epochs)]) + " |"


def compared(value: float, study: Study) -> list[str]:
    """Return the cells of the race's value and the best trial's, and by how much the race is worse."""
    found = best(study)
    own = found.value or math.nan
    return [f"{value:.4f}", f"{config_of(found).model}", f"{own:.4f}", f"{100 * (value / own - 1):+.1f} %"]


def spent(runs: Runs, name: str, study: Study, most_epochs: int) -> list[str]:
    """Return the cells of a search: its CPU time without killed calls, and how many trials were trained to the end."""
    seconds = runs.seconds.get(f"{name}-{most_epochs}", math.nan)
    return [f"{seconds:.0f} s", f"{len(completed(study))} of {len(begun(study))}"]


HEADER = (
    "| graph | race: winner | valid | search: best | valid | race to search | race: test | search: test "
    "| race to search | default: test | race: CPU time | to default | search: CPU time | to the end |"
)
HEADER_OF_PARTS = (
    "| graph | race: winner | valid | search: best | valid | race to search | best of the pool | valid "
    "| search: CPU time | to the end |"
)


def main(arguments: list[str]) -> None:
    """Print the tables of the folders and of the parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=TuneConfig.trials)
    parser.add_argument("--most-epochs", type=int, default=TuneConfig.most_epochs)
    parser.add_argument("out", type=Path)
    parser.add_argument("graphs", nargs="+")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    runs = Runs(options.out)
    models = [model for model in MODELS.names() if model not in LEFT_OUT]
    parts = [name for name in options.graphs if name in GRAPHS]
    given = models, options.trials, options.most_epochs
    for header, names in ((HEADER, [n for n in options.graphs if n not in parts]), (HEADER_OF_PARTS, parts)):
        if names:
            print("\n" + header + "\n" + "|---" * (header.count("|") - 1) + "|")
        for name in names:
            print(part_row(runs, name, *given) if name in parts else row(runs, Path(name), *given), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
