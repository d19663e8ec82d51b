"""Time training in partitions: on one thread beside a training in one memory, and on Dask with one and two workers.

    python benchmarks/partitions.py --dataset fb15k-237 --partitions 4

TransE with row-wise Adagrad. An epoch before the measured ones compiles the loops and starts the workers. Times are
those of one run, in turn; the fingerprints of all trainings in partitions must be equal.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from cases import graph_of

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training.loop import train
from kgcore.wings.partitions import train_in_partitions
from kgcore.workers import EachPart, one_by_one
from tasks.workspace.resources import local_cluster, workers

CPU = torch.device("cpu")


class Clock:
    """Seconds from the end of the first epoch to that of the last."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def __call__(self, epoch: int, loss: float) -> None:
        self.ends.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        return self.ends[-1] - self.ends[0]


def in_partitions(graph: KnowledgeGraph, config: TrainConfig, each: EachPart) -> tuple[float, str]:
    """Return the seconds of the epochs but the first, and the fingerprint of the model."""
    clock = Clock()
    with TemporaryDirectory() as folder:
        training = train_in_partitions(graph, config, CPU, Path(folder), each, clock)
        return clock.seconds, training.model.fingerprint()


def on_dask(graph: KnowledgeGraph, config: TrainConfig, processes: int) -> tuple[float, str]:
    """Return what `in_partitions` returns, from a cluster with so many workers of one thread."""
    with local_cluster(processes) as cluster, workers(cluster.scheduler_address.replace("tcp:", "dask:")) as each:
        return in_partitions(graph, config, each)


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--size", type=int, default=3000, help="people, if the data set is generated")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    graph = graph_of(asked)
    rate = TrainConfig(optimiser="adagrad", learning_rate=0.2, epochs=asked.epochs)
    clock, config = Clock(), rate.replace(partitions=asked.partitions)
    train(graph, rate, CPU, on_epoch=clock)
    one, alone = in_partitions(graph, config, one_by_one)
    first, bits = on_dask(graph, config, 1)
    second, same = on_dask(graph, config, 2)
    print(f"{graph.name}, {len(graph.train):,} triples, {asked.partitions} partitions, {asked.epochs - 1} epochs")
    print(f"one memory: {clock.seconds:.1f} s; partitions: {one:.1f} s, {clock.seconds / one:.2f} of the speed")
    print(f"Dask, one worker: {first:.1f} s; two workers: {second:.1f} s, {first / second:.2f} times as fast")
    print("the same bits" if alone == bits == same else "other bits")


if __name__ == "__main__":
    main()
