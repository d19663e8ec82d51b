"""Measure kgcal on a GPU: training, scores and ranks of every model, and PyKEEN's training in the same run.

    python benchmarks/gpu.py [--dataset wn11] [--model transe] [--k 100] [--json]

`benchmarks/gpu.sh` also times whole runs.

Training: million scored triples (positives and corruptions) a second and milliseconds a step, the median over the
epochs after the third one. `shared`: 64 positives share their corruptions; `per_triple`: each positive has its own. The
code of the steps is compiled in trainings of 30,000 steps, such as those of the paper: TransE and ComplEx are measured
with and without.
Scores: million random triples a second. Ranks: seconds for 1,000 test triples, each among all entities on both sides.
Pairs: seconds of the search for the 100,000 best of 60 million pairs of a subject and an object.
PyKEEN, if it is installed in this environment, trains with the same k, batch and number of corruptions. Each positive
has its own corruptions there. The first line has the speed of copies in the memory of the GPU, bytes read and written.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise, product
from statistics import median
from typing import Any

import numpy as np
import torch
from cases import graph_of, parsed, random_model, report

from kgcore.answer.pairs import PairSearch, best_pairs, search_pairs
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.ranking import filtered_ranks
from kgcore.embed.training.loop import train
from kgcore.registries import MODELS

CHUNKS = {"shared": 64, "per_triple": 1}
PAPER = ((1_725, 20), (9_883, 20))  # those of the paper for WN11 and FB13
BATCHES = ((1_152, 20), (1_152, 198), (16_384, 20), (16_384, 198))  # positives of a step, corruptions of a positive
EPOCHS, WARM_UPS, MANY = 8, 3, 10_000
COPIED = 2**30  # bytes
PAIRS, TOP = 60_000_000, 100_000


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of the work on the GPU, after a warm-up."""
    work()
    torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def copied() -> float:
    """Return the terabytes a second that a copy reads and writes."""
    source = torch.rand(COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPIED / seconds_of(lambda: target.copy_(source)) / 1e12


def training(
    graph: KnowledgeGraph, model: str, k: int, batch: int, eta: int, way: str, compiled: bool = False
) -> dict[str, Any]:
    """Train EPOCHS epochs, and return the speed. compiled: they are the first ones of MANY."""
    settings = {"training_eta": eta, "batch_size": batch, "chunk_size": CHUNKS[way]}
    ends = [time.perf_counter()]
    train(
        graph,
        TrainConfig(model=model, k=k, epochs=MANY if compiled else EPOCHS, **settings),
        torch.device("cuda"),
        on_epoch=lambda epoch, loss: ends.append(time.perf_counter()),
        until=EPOCHS,
    )
    epoch = median([end - start for start, end in pairwise(ends)][WARM_UPS:])
    steps = -(-len(graph.train) // batch)
    figures = {
        "batch": batch,
        "eta": eta,
        "way": way,
        "compiled": compiled,
        "ms_per_step": round(1e3 * epoch / steps, 3),
    }
    return figures | {"mtriples_per_s": round(len(graph.train) * (1 + eta) / epoch / 1e6, 2)}


def search(model: TrainedModel, graph: KnowledgeGraph) -> tuple[int, float]:
    """Return how many pairs of a subject and an object were searched for the TOP best ones, and the seconds."""
    side = min(int(PAIRS**0.5), len(graph.entities))
    subjects, objects = np.arange(side), np.arange(len(graph.entities) - side, len(graph.entities))
    asked = PairSearch(subjects, objects, 0, TOP, leave_out=graph.all_known, reflexive=False)
    return side**2, seconds_of(lambda: best_pairs(model, asked, search_pairs(model, asked, subjects)))


def pykeen(graph: KnowledgeGraph, model: str, k: int, batch: int, eta: int) -> float:
    """Train with PyKEEN's stochastic local closed world loop. Return million scored triples a second."""
    from pykeen.models import model_resolver
    from pykeen.training import SLCWATrainingLoop, TrainingCallback
    from pykeen.triples import CoreTriplesFactory

    ends = [time.perf_counter()]

    class Clock(TrainingCallback):  # type: ignore[misc]
        def post_epoch(self, epoch: int, epoch_loss: float, **unused: object) -> None:
            torch.cuda.synchronize()
            ends.append(time.perf_counter())

    sizes = {"num_entities": len(graph.entities), "num_relations": len(graph.predicates)}
    factory = CoreTriplesFactory(torch.from_numpy(graph.train.triples), **sizes)
    options = {"scoring_fct_norm": 1} if model == "transe" else {}
    trained = model_resolver.make(model, triples_factory=factory, embedding_dim=k, random_seed=0, **options).cuda()
    loop = SLCWATrainingLoop(
        model=trained, triples_factory=factory, optimizer="Adam", negative_sampler_kwargs={"num_negs_per_pos": eta}
    )
    loop.train(factory, num_epochs=EPOCHS, batch_size=batch, use_tqdm=False, callbacks=[Clock()])
    epoch = median([end - start for start, end in pairwise(ends)][WARM_UPS:])
    return len(graph.train) * (1 + eta) / epoch / 1e6


def main() -> None:
    options = parsed("speed on a GPU", triples=1_000_000)
    options.device = "cuda"
    names = options.model if len(options.model) == 1 else MODELS.names()
    graph, rng = graph_of(options), np.random.default_rng(0)
    report(options, {"copy_tb_per_s": round(copied(), 2)}, f"copies: {copied():.2f} TB/s")

    def show(**figures: Any) -> None:
        report(options, figures, ", ".join(f"{key} {value}" for key, value in figures.items()))

    for name in names:
        for way in CHUNKS:
            show(model=name, **training(graph, name, options.k, *BATCHES[0], way))
    for batch, eta in BATCHES[1:]:
        show(model="transe", **training(graph, "transe", options.k, batch, eta, "shared"))
    sizes = len(graph.entities), len(graph.predicates), len(graph.entities)
    triples = np.stack([rng.integers(size, size=options.triples) for size in sizes], axis=1)
    for name in options.model:
        model = random_model(name, options, graph)
        scores = options.triples / seconds_of(lambda model=model: model.score(triples)) / 1e6
        asked = graph.test.positives[:1000]
        ranks = seconds_of(lambda model=model, asked=asked: filtered_ranks(model, asked, graph.all_known))
        show(model=name, scored_mtriples_per_s=round(scores, 2), ranks_s_per_1000=round(1000 * ranks / len(asked), 4))
        pairs, seconds = search(model, graph)
        show(model=name, pairs=pairs, seconds=round(seconds, 2))
    for name, (batch, eta), way, compiled in product(("transe", "complex"), PAPER, CHUNKS, (False, True)):
        show(model=name, **training(graph, name, options.k, batch, eta, way, compiled))
    peers = ("transe", "distmult", "complex", "rotate") if find_spec("pykeen") else ()
    for name in [name for name in peers if name in names]:
        show(peer="pykeen", model=name, mtriples_per_s=round(pykeen(graph, name, options.k, *BATCHES[0]), 2))


if __name__ == "__main__":
    main()
