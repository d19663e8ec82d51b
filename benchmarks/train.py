"""Measure the speed of training: scored triples a second.

python benchmarks/train.py --dataset wn11 --model transe --sampling shared --eta 20 --k 100 --batch 1152 --json

A scored triple is a positive or a corruption. With `shared`, 64 positives share their corruptions; with `per_triple`,
each positive has its own. `mtriples_per_s` is the median over the epochs after the first one, in millions.
`compile_s` is how much longer the first epoch takes: loops are compiled or read from the disk in it.
"""

import argparse
import json
import resource
import time
from itertools import pairwise
from statistics import median

import torch

from kgcore.config import TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.embed.training.loop import train
from tasks.workspace.settings import ensure_home, mirror

CHUNKS = {"shared": 64, "per_triple": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description="speed of training")
    parser.add_argument("--dataset", default="wn11")
    parser.add_argument("--model", default="transe")
    parser.add_argument("--sampling", choices=CHUNKS, default="shared")
    parser.add_argument("--eta", type=int, default=20)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1152)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiled", action="store_true", help="compile the loss, whatever the model")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    spec = find_dataset(given.dataset)
    graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 2_000, 0)).graph
    config = TrainConfig(
        model=given.model,
        k=given.k,
        training_eta=given.eta,
        batch_size=given.batch,
        chunk_size=CHUNKS[given.sampling],
        epochs=given.epochs,
    )
    ends = [time.perf_counter()]
    device = torch.device(given.device)
    train(
        graph, config, device, compiled=given.compiled, on_epoch=lambda number, loss: ends.append(time.perf_counter())
    )
    seconds = [end - start for start, end in pairwise(ends)]
    usual = median(seconds[1:]) if len(seconds) > 1 else seconds[0]
    found = {
        "mtriples_per_s": round(len(graph.train) * (1 + given.eta) / usual / 1e6, 3),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "compile_s": round(max(0.0, seconds[0] - usual), 2),
        "threads": torch.get_num_threads(),
        "device": given.device,
    }
    words = ", ".join(f"{name} {value}" for name, value in found.items())
    print(json.dumps(found) if given.json else f"{given.model}, {given.sampling}, eta {given.eta}: {words}")


if __name__ == "__main__":
    main()
