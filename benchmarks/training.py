"""Measure the speed of a training step, relative to plain autograd through the whole tables, in one run.

    python benchmarks/training.py [--size 100000] [--steps 30]

Prints milliseconds per step and the ratio. Both loops train TransE (k = 100, eta = 20, self-adversarial, 1,152
positives per step) on a generated graph. The plain loop draws corruptions for every positive, reads from the full
tables, and lets torch.optim.Adam update every row.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from kgcore.config import TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.family import write_genealogy
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training.loop import train
from kgcore.registries import LOSSES, MODELS
from kgcore.registry import build

CPU = torch.device("cpu")


def ours(graph: KnowledgeGraph, chunk: int) -> float:
    """Return the seconds per step of kgcal, over one epoch."""
    config = TrainConfig(epochs=1, chunk_size=chunk)
    started = time.perf_counter()
    train(graph, config, CPU)
    return (time.perf_counter() - started) / -(-len(graph.train) // config.batch_size)


def plain(graph: KnowledgeGraph, steps: int) -> float:
    """Return the seconds per step of plain autograd through the whole tables."""
    config, rng = TrainConfig(), np.random.default_rng(0)
    model, loss = build(MODELS.get("transe"), {}, config.k), build(LOSSES.get("self_adversarial"), {})
    entities = torch.nn.Parameter(torch.rand(len(graph.entities), config.k) / 10 - 0.05)
    predicates = torch.nn.Parameter(torch.rand(len(graph.predicates), config.k) / 10 - 0.05)
    adam = torch.optim.Adam([entities, predicates], lr=config.learning_rate)
    started = time.perf_counter()
    for _ in range(steps):
        batch = torch.from_numpy(graph.train.triples[rng.integers(len(graph.train), size=config.batch_size)])
        s, p, o = entities[batch[:, 0]], predicates[batch[:, 1]], entities[batch[:, 2]]
        others = torch.from_numpy(rng.integers(len(graph.entities), size=(2, len(batch), config.training_eta // 2)))
        corrupted = [
            model.score(s[:, None], p[:, None], entities[others[0]]),
            model.score(entities[others[1]], p[:, None], o[:, None]),
        ]
        adam.zero_grad()
        loss(model.score(s, p, o), torch.cat(corrupted, 1)).backward()
        adam.step()
    return (time.perf_counter() - started) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description="training step: ours against plain autograd")
    parser.add_argument("--size", type=int, default=38_000, help="people in the generated graph")
    parser.add_argument("--steps", type=int, default=30, help="steps of the plain loop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_genealogy(Path(folder), options.size, 0)
        graph = prepare(find_dataset("family"), Path(folder)).graph
    print(f"{len(graph.entities):,} entities, {len(graph.train):,} train triples, {torch.get_num_threads()} threads")
    baseline = plain(graph, options.steps)
    print(f"plain autograd and Adam   {baseline * 1e3:7.1f} ms per step")
    for chunk in (64, 1):
        seconds = ours(graph, chunk)
        faster = f"{baseline / seconds:5.1f} times as fast"
        print(f"kgcal, chunk_size {chunk:<4}    {seconds * 1e3:7.1f} ms per step   {faster}")


if __name__ == "__main__":
    main()
