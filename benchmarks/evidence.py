"""Time the evidence of many candidates, group by group.

    python benchmarks/evidence.py wn11 fb13 > table.md

The candidates are corruptions of all training facts: half of them typed, half uniform, half with another subject. The
model is TransE with k = 100 and random tables: its speed does not depend on the numbers. Times are processor seconds of
one core. Memory is the peak of the process beyond graph, model and candidates, up to this group.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch

from kgcore.arrays import Triples
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.registries import EVIDENCE
from tasks.workspace.settings import ensure_home, mirror

CANDIDATES, K = 5_000_000, 100


def source_of(graph: KnowledgeGraph) -> Source:
    """Return the graph with a model of random numbers."""
    rng = np.random.default_rng(0)
    tables = (rng.normal(size=(rows, K)).astype(np.float32) for rows in (len(graph.entities), len(graph.predicates)))
    return Source(graph, TrainedModel("transe", K, Embeddings(*map(torch.from_numpy, tables))))


def candidates(graph: KnowledgeGraph) -> Triples:
    """Return CANDIDATES corruptions of training facts, in random order."""
    rng, facts = np.random.default_rng(0), graph.train.positives
    drawing, shares = Mixture(graph, {"typed": 0.5, "uniform": 0.5}), np.full(len(graph.predicates), 0.5)
    rounds = -(-CANDIDATES // len(facts))
    made = [corrupt(facts, 1, drawing, rng, shares, graph.known).triples for _ in range(rounds + 1)]
    return rng.permutation(np.concatenate(made))[:CANDIDATES]


def memory(field: str) -> float:
    """Return the memory of the process in GiB: VmRSS is what it uses, VmHWM its peak. Linux only."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


def main(datasets: list[str]) -> None:
    """Print a table for each data set."""
    for name in datasets:
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 0, 0)).graph
        source, triples = source_of(graph), candidates(graph)
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts here
        start, total = memory("VmRSS"), 0.0
        print(f"\n{name}, {len(triples):,} candidates\n\n| group | prepare | values | GiB |\n|---|---|---|---|")
        for group in EVIDENCE.names():
            begin = time.process_time()
            features = Features.of(source, [group])
            ready = time.process_time()
            features.evidence(triples)
            done = time.process_time()
            total += done - begin
            print(f"| {group} | {ready - begin:.1f} | {done - ready:.1f} | {memory('VmHWM') - start:.2f} |", flush=True)
        print(f"| all | | {total:.1f} | {memory('VmHWM') - start:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
