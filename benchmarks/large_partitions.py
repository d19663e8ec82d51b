"""Train an epoch in partitions on a random graph whose tables do not fit into memory, and score a million pairs.

    python benchmarks/large_partitions.py --entities 60000000 --triples 20000000 --partitions 24 [--folder FOLDER]

TransE with row-wise Adagrad, in one process. `tables_gb` is the size of the tables with the state of their optimiser;
the folder needs twice as much. `peak_gb` is the largest memory of the process, with the pages of mapped files.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from large import memory, random_graph

from kgcore.config import TrainConfig
from kgcore.wings.partitions import train_in_partitions

SIDE = 1000  # subjects and objects of the pairs


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=60_000_000)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--predicates", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the partitions are written; they are deleted at the end")
    given = parser.parse_args()
    config = TrainConfig(
        model="transe", k=given.k, optimiser="adagrad", learning_rate=0.2, epochs=1, partitions=given.partitions
    )
    graph = random_graph(given.entities, given.triples, given.predicates)
    times = [time.perf_counter()]
    with TemporaryDirectory(dir=given.folder) as folder:
        model = train_in_partitions(graph, config, torch.device("cpu"), Path(folder)).model
        times.append(time.perf_counter())
        rng = np.random.default_rng(1)
        subjects, objects = (rng.choice(given.entities, SIDE, replace=False) for _ in range(2))
        pairs = np.stack([np.repeat(subjects, SIDE), np.zeros(SIDE**2, dtype=np.int64), np.tile(objects, SIDE)], axis=1)
        scores = model.score(pairs)
        times.append(time.perf_counter())
    epoch, answer = np.diff(times)
    found = {
        "entities": given.entities,
        "triples": given.triples,
        "partitions": given.partitions,
        "tables_gb": round(given.entities * (given.k + 1) * 4 / 1e9, 1),
        "epoch_s": round(float(epoch), 1),
        "pairs_s": round(float(answer), 1),
        "finite": bool(np.isfinite(scores).all()),
        "peak_gb": round(memory() / 1e3, 2),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
