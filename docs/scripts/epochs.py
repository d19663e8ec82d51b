"""How many epochs do large graphs need? Gains of contenders of the race, trained on all triples, by their epochs.

    KGCAL_MIRROR=FOLDER python docs/scripts/epochs.py fb13 "transe half cohort" 1 0.5 0.25

Prints a line of CSV for each part of the epochs: graph, training triples, contender, epochs, steps, the three gains on
validation and their mean, and seconds of training. A graph is a registered data set, or `family:PEOPLE`.
"""

import sys
import time
from dataclasses import replace

import numpy as np
import torch

from kgcore.config import PrepareConfig, TrainConfig
from kgcore.config.base import ALL, GAIN
from kgcore.config.calibrate import ASSUMED_BASE_RATE
from kgcore.config.race import RaceConfig, entries
from kgcore.data.datasets.prepare import read_dataset
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training.loop import train
from kgcore.wings.tuning.objective import SearchObjective
from tasks.workspace.settings import home, mirror

FIGURES = ("negatives", "answers", "missing_facts", GAIN)


def without_test(name: str) -> KnowledgeGraph:
    """Return a graph without its test split."""
    dataset, _, people = name.partition(":")
    config = PrepareConfig(dataset=dataset, **({"size": int(people)} if people else {}))
    graph = read_dataset(config, home() / "datasets", mirror()).graph
    return replace(graph, test=graph.test.part(np.arange(0)))


def main() -> None:
    name, contender, *parts = sys.argv[1:]
    graph = without_test(name)
    sizes = len(graph.train), len(graph.entities), len(graph.predicates)
    race = RaceConfig(usual=TrainConfig())
    settings = entries(race, *sizes)[contender]
    objective = SearchObjective(graph, GAIN, race.negatives, ASSUMED_BASE_RATE, np.random.default_rng(0), ALL)
    for part in map(float, parts):
        config = settings.replace(epochs=max(1, round(settings.epochs * part)))
        started = time.perf_counter()
        model = train(graph, config, torch.device("cpu")).model
        seconds = time.perf_counter() - started
        found = objective.measure(model)
        steps = config.epochs * -(-sizes[0] // config.batch_size)
        figures = ",".join(f"{found[figure]:.4f}" for figure in FIGURES)
        print(f"{name},{sizes[0]},{contender},{config.epochs},{steps},{figures},{seconds:.0f}", flush=True)


if __name__ == "__main__":
    main()
