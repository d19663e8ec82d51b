"""Measure the speed of training with each corruption strategy, relative to uniform corruptions, in one run.

    python benchmarks/corruptions.py [--size 6000]

Prints milliseconds per step, and the speed as a share of the speed with uniform corruptions. Each row trains TransE
(k = 100, eta = 20, self-adversarial, 1,152 positives per step in chunks of 64) for one epoch on a generated graph, and
counts the fastest of three trainings.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from kgcore.config import TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.family import write_genealogy
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training.loop import train
from kgcore.registries import STRATEGIES

ROWS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "uniform, filtered": {"training_filtered": True},
    "uniform, sides by Bernoulli": {"training_sides": "bernoulli"},
    "half typed, half uniform": {"training_strategy": {"typed": 1.0, "uniform": 1.0}},
    "typed, sides by Bernoulli": {"training_strategy": {"typed": 1.0}, "training_sides": "bernoulli"},
    **{name: {"training_strategy": {name: 1.0}} for name in STRATEGIES.names() if name != "uniform"},
}


def seconds(graph: KnowledgeGraph, options: dict[str, Any]) -> float:
    """Return the seconds per step over one epoch."""
    config = TrainConfig(epochs=1, **options)
    started = time.perf_counter()
    train(graph, config, torch.device("cpu"), compiled=False)
    return (time.perf_counter() - started) / -(-len(graph.train) // config.batch_size)


def main() -> None:
    """Print a row for each strategy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=6_000, help="people in the graph")
    with tempfile.TemporaryDirectory() as folder:
        write_genealogy(Path(folder), parser.parse_args().size, 0)
        graph = prepare(find_dataset("family"), Path(folder)).graph
    print(f"{len(graph.train):,} training triples, {len(graph.entities):,} entities")
    uniform = 0.0
    for name, options in ROWS.items():
        taken = min(seconds(graph, options) for _ in range(3))
        uniform = uniform or taken
        print(f"{name:<30} {1000 * taken:6.2f} ms per step, {uniform / taken:.2f} of uniform's speed", flush=True)


if __name__ == "__main__":
    main()
