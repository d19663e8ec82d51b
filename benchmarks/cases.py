"""The graph, the model and the report that the benchmarks of ranking and scoring share."""

import argparse
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.base import Embeddings, QueryModel
from kgcore.embed.models.trained import TrainedModel
from kgcore.registries import MODELS
from kgcore.registry import build


def parsed(description: str, triples: int) -> argparse.Namespace:
    """Read the options of the command line. `triples` is the default of `--triples`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--dataset", default="wn11", help="a registered data set; KGCAL_MIRROR names a mirror")
    parser.add_argument("--size", type=int, default=3000, help="people, if the data set is generated")
    parser.add_argument("--model", action="append", help="may be repeated; by default every model with queries")
    parser.add_argument("--norm", type=int, help="norm of the distance, for models that have one")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--triples", type=int, default=triples)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="print one line of JSON a model")
    options = parser.parse_args()
    options.model = options.model or [
        name for name in MODELS.names() if isinstance(build(MODELS.get(name), {}, 4), QueryModel)
    ]
    return options


def graph_of(options: argparse.Namespace) -> KnowledgeGraph:
    """Return the graph of the data set."""
    spec, root = find_dataset(options.dataset), Path(os.environ.get("KGCAL_HOME", ".kgcal")) / "datasets"
    return prepare(spec, fetch(spec, root, os.environ.get("KGCAL_MIRROR"), options.size)).graph


def random_model(name: str, options: argparse.Namespace, graph: KnowledgeGraph) -> TrainedModel:
    """Return a model with its initial embeddings. Ranking and scoring take as long as with trained ones."""
    rng, chosen = np.random.default_rng(0), {} if options.norm is None else {"norm": options.norm}
    model = build(MODELS.get(name), chosen, options.k)

    def uniform(rows: int, width: int, scale: float) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(-scale, scale, (rows, width))).float()

    shared = {part: torch.from_numpy(start).float() for part, start in model.initial_shared(rng).items()}
    entities = uniform(len(graph.entities), model.entity_width, model.scale)
    predicates = uniform(len(graph.predicates), model.predicate_width, model.predicate_scale or model.scale)
    tables = Embeddings(entities, predicates, shared)
    return TrainedModel(name, options.k, tables, chosen).to(torch.device(options.device))


def seconds_of(work: Callable[[], object], rounds: int, warm_up: Callable[[], object]) -> tuple[float, float]:
    """Return the median seconds of the work, and the seconds that the warm-up takes longer at its first call.

    The first call compiles what is compiled.
    """
    taken = []
    for function in (warm_up, warm_up, *[work] * rounds):
        started = time.perf_counter()
        function()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[2:]), max(0.0, taken[0] - taken[1])


def report(options: argparse.Namespace, figures: dict[str, Any], text: str) -> None:
    """Print the figures of a model as one line of JSON with `--json`, or the text."""
    device = options.device if options.device == "cpu" else torch.cuda.get_device_name()
    machine = {
        "dataset": options.dataset,
        "k": options.k,
        "norm": options.norm,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "threads": torch.get_num_threads(),
        "device": device,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures | machine) if options.json else text, flush=True)
