"""Train on a random graph with millions of entities, and measure time and memory.

    python benchmarks/large.py --entities 20000000 --optimiser adagrad --steps 1000 [--k 100] [--model transe] [--json]

Entities of triples are drawn at random, so no table row is used more often than others: this is the hardest case for
caches. `tables_mb` is the size of the tables with the state of their optimiser, `triples_mb` that of the triples.
`steps_per_s` leaves out the first tenth of the steps.
"""

import argparse
import json
import resource
import time
from collections.abc import Sequence
from typing import overload

import numpy as np
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.training.loop import TrainingState, built
from kgcore.registries import OPTIMISERS


class Numbers(Sequence[str]):
    """The names 0, 1, 2, ... of n entities, which take no memory."""

    def __init__(self, count: int) -> None:
        self._range = range(count)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        found = self._range[place]
        return str(found) if isinstance(found, int) else [str(number) for number in found]

    def __len__(self) -> int:
        return len(self._range)


def random_graph(entities: int, triples: int, predicates: int) -> KnowledgeGraph:
    """Return a graph of random triples, all in train."""
    rng = np.random.default_rng(0)
    rows = np.empty((triples, 3), dtype=np.int64)
    for column, size in enumerate((entities, predicates, entities)):
        rows[:, column] = rng.integers(0, size, triples)
    empty = Split(rows[:0], np.zeros(0))
    return KnowledgeGraph("random", Numbers(entities), Numbers(predicates), Split(rows, np.ones(triples)), empty, empty)


def main() -> None:
    parser = argparse.ArgumentParser(description="training on a large graph")
    parser.add_argument("--entities", type=int, default=20_000_000)
    parser.add_argument("--predicates", type=int, default=20)
    parser.add_argument("--model", default="transe")
    parser.add_argument("--optimiser", choices=OPTIMISERS.names(), default="adagrad")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--eta", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1152)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    config = TrainConfig(
        model=given.model,
        k=given.k,
        training_eta=given.eta,
        batch_size=given.batch,
        optimiser=given.optimiser,
        epochs=1,
    )
    model, loss = built(config)
    before = memory()
    graph = random_graph(given.entities, given.steps * given.batch, given.predicates)
    state = TrainingState(graph, model, loss, config, torch.device("cpu"), compiled=False)
    tables = sum(part.nbytes for table in state.tables.by_name().values() for part in table.tensors().values())
    warm = max(1, given.steps // 10)
    times = []
    for number, (rows, chunk) in enumerate(state.batches.draw(state.rng), start=1):
        if number == warm:
            times.append(time.perf_counter())
        state.step.run(state.step.draw(state.positives[rows], chunk), number, config.learning_rate)
    times.append(time.perf_counter())
    steps = (given.steps - warm) / (times[1] - times[0])
    found = {
        "entities": given.entities,
        "optimiser": given.optimiser,
        "steps_per_s": round(steps, 1),
        "mtriples_per_s": round(steps * given.batch * (1 + given.eta) / 1e6, 3),
        "libraries_mb": round(before),
        "tables_mb": round(tables / 2**20),
        "triples_mb": round(graph.train.triples.nbytes / 2**20),
        "peak_rss_mb": round(memory()),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(found) if given.json else ", ".join(f"{name} {value}" for name, value in found.items()))


def memory() -> float:
    """Return the largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
