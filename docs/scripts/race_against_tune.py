"""Compare the race of `kgcal run` on a folder of triples with a search over the models by the rules of `kgcal tune`.

    python docs/scripts/race_against_tune.py OUT FOLDER... > table.md
    python docs/scripts/race_against_tune.py --trials 30 --most-epochs 33 OUT FOLDER...

For each FOLDER, OUT/NAME-auto.json has the results of `kgcal run --dataset FOLDER`, OUT/NAME-default.json those with
`--preset default`, and OUT/NAME-best.json those with the settings of the best trial. OUT/NAME-EPOCHS.db has the trials,
and OUT/seconds.json the CPU times. What is there is not computed again, so the script can be stopped and started again.

The search has one study for all MODELS: the model is one more choice. The ranges, the sampler, the pruner, and the
settings with which a model starts are those of `kgcal tune --model MODEL`. The first trials are the initial settings of
each model, the next ones the neighbours of the best of these. The race and the search minimise the same figure: the
cross-fitted Brier score on validation, with the same halves and the same negatives.
"""

import argparse
import json
import math
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from optuna import Study, Trial

from kgcore.config import PipelineConfigs, PipelineGiven, PrepareGiven, TrainConfig, TrainGiven, TuneConfig, presets
from kgcore.datasets.base import find_dataset
from kgcore.datasets.prepare import prepare
from kgcore.graph import KnowledgeGraph, Split
from kgcore.registries import MODELS
from kgcore.tuning.objective import Objective
from kgcore.tuning.search import Plan, search
from kgcore.tuning.space import Drawn, Space
from kgcore.tuning.study import begun, best, completed, config_of, open_study
from tasks.jobs.command import run_command

# model -> why it is not searched. An epoch of TransE on UMLS takes .03 s of CPU time
LEFT_OUT = {
    **dict.fromkeys(("conve", "convkb", "capse", "kbgat"), "an epoch takes 140 to 230 times as long as one of TransE"),
    **dict.fromkeys(("rescal", "tucker"), "an epoch takes 18 to 32 times as long as one of TransE"),
    "hole_complex": "it is ComplEx with another factor",
}
SEARCHED = (*TuneConfig().search, "cohort_weight")
NEIGHBOURS = "neighbours"  # the mark of a study whose best model has its neighbours in the queue
CPU = torch.device("cpu")
Results = dict[str, Any]


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


class Runs:
    """The whole runs and the searches in a folder, with their CPU times."""

    def __init__(self, out: Path) -> None:
        self._out = out
        (out / "homes").mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a file of the folder."""
        return self._out / name

    @property
    def seconds(self) -> dict[str, float]:
        """The CPU seconds of each run and search, with all their processes."""
        path = self.path("seconds.json")
        found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def spent(self, name: str, seconds: float) -> None:
        """Add CPU seconds to a run or a search."""
        known = self.seconds
        self.path("seconds.json").write_text(json.dumps(known | {name: round(known.get(name, 0.0) + seconds, 1)}))

    def run(self, name: str, options: list[str]) -> Results:
        """Return the results of `kgcal run` with these options."""
        path = self.path(f"{name}.json")
        if not path.exists():
            before = _of_children()
            command = [sys.executable, "-m", "flows.cli", "run", *options, "--json", str(path.absolute())]
            home = str((self._out / "homes" / name).absolute())
            with self.path(f"{name}.log").open("w") as log:
                environment = os.environ | {"KGCAL_HOME": home}
                subprocess.run(command, check=True, stdout=log, stderr=log, env=environment)  # noqa: S603
            self.spent(name, _of_children() - before)
        found: Results = json.loads(path.read_text())
        return found


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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


def searched(runs: Runs, folder: Path, space: AnyModel, trials: int) -> Study:
    """Return the study of a folder, with all its trials."""
    name = f"{folder.name}-{space.most_epochs}"
    study = open_study(runs.path(f"{name}.db"), "brier", space.firsts())
    if len(begun(study)) < trials:
        configs, graph = initial(folder, space.base.model), without_test(folder)
        objective = Objective(graph, "brier", configs.corrupt, configs.calibrate.alpha, np.random.default_rng(0))
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


def row(runs: Runs, folder: Path, trials: int, most_epochs: int) -> str:
    """Return the row of a folder: what the race has, what the search has, and the CPU times."""
    name, dataset = folder.name, ["--dataset", str(folder)]
    auto = runs.run(f"{name}-auto", dataset)
    usual = runs.run(f"{name}-default", [*dataset, "--preset", "default"])
    models = [model for model in MODELS.names() if model not in LEFT_OUT]
    study = searched(runs, folder, space_of(folder, models, most_epochs), trials)
    found = best(study)
    settings = config_of(found)
    command = run_command(vars(replace(initial(folder, settings.model), train=settings)).values())
    again = runs.run(f"{name}-{most_epochs}-best", shlex.split(command)[2:])
    winner, value, own = auto["race"]["rows"][0], auto["race"]["rows"][0]["values"][-1][1], found.value or 0.0
    seconds, search_name = runs.seconds, f"{name}-{most_epochs}"
    times = seconds[f"{name}-auto"] / seconds[f"{name}-default"]
    cells = [
        name,
        f"{winner['name']}",
        f"{value:.4f}",
        f"{settings.model}, trial {found.number}",
        f"{own:.4f}",
        f"{100 * (value / own - 1):+.1f} %",
        f"{lowest(auto):.4f}",
        f"{lowest(again):.4f}",
        f"{100 * (lowest(auto) / lowest(again) - 1):+.1f} %",
        f"{lowest(usual):.4f}",
        f"{seconds[f'{name}-auto']:.0f} s, {times:.1f}",
        f"{seconds[search_name]:.0f} s, {len(completed(study))} of {len(begun(study))} to their end",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = (
    "| graph | race: winner | valid | search: best | valid | race to search | race: test | search: test "
    "| race to search | default: test | race: CPU time, to default | search: CPU time |"
)


def main(arguments: list[str]) -> None:
    """Print the table of the folders."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=TuneConfig.trials)
    parser.add_argument("--most-epochs", type=int, default=TuneConfig.most_epochs)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    runs = Runs(options.out)
    print(HEADER + "\n" + "|---" * HEADER.count(" | ") + "|---|")
    for folder in options.folders:
        print(row(runs, folder, options.trials, options.most_epochs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
