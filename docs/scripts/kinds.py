"""Make the table of kinds of mistakes in docs/explanation/candidates.md: candidates whose mistakes are known.

    python docs/scripts/kinds.py family 100 2        # data set, repetitions, processes

A model is trained once. In each repetition the positives of valid and test are divided at random: 3,000 are the
positives of the fit, some are true candidates, and others are the sources of mistakes, which are corruptions by one
strategy. There are 2,000 candidates. The mixture is fitted with all strategies as components, and without that of the
mistakes (then also without the default mixture). The base rate is stated, or estimated.
"""

import sys
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
from matched import STRATEGIES, mixture_data, trained_model

from kgcore.config import CorruptConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.mixture.em import solve
from kgcore.mixture.goodness import fitness_of, simulated
from kgcore.mixture.interval import base_rate_interval, interval_level
from kgcore.mixture.samples import MixtureData, bin_edges, count, number_of_bins
from tasks.workspace.settings import ensure_home, mirror

CANDIDATES, RATE, POSITIVES, ETA = 2_000, 0.5, 3_000, 5
SHARED: "Trained"


def drawn(graph: KnowledgeGraph, model: TrainedModel, kind: str, rng: np.random.Generator) -> MixtureData:
    """Draw the samples of one repetition. The mistakes of the candidates are corruptions of one kind."""
    strategy = Mixture(graph, STRATEGIES[kind])
    strategy.see(model)
    held_out = rng.permutation(np.concatenate([graph.valid.positives, graph.test.positives]))
    number = rng.binomial(CANDIDATES, RATE)
    positives, true, sources = np.split(held_out, [POSITIVES, POSITIVES + number])
    shares = subject_shares(graph, CorruptConfig().calibration_sides)
    wrong = corrupt(sources, 1, strategy, rng, shares, graph.known).triples[: CANDIDATES - number]
    triples = np.concatenate([true, wrong])
    return mixture_data(graph, model, int(rng.integers(1 << 30)), positives, triples, ETA)


def fitted(data: MixtureData, rng: np.random.Generator) -> tuple[float, bool, float, float, float]:
    """Return the estimate, whether its interval holds the truth, its width, and the p-values of the two fits."""
    counts = count(data, bin_edges(data, number_of_bins(data)))
    best = solve(counts)
    rate, _ = base_rate_interval(counts, best, interval_level(counts, best, 60, rng))
    at = solve(counts, np.array([RATE]), start=best)
    free, stated = (fitness_of(simulated(counts, *own, 99, rng)) for own in ((best, None), (at, RATE)))
    return rate.value, rate.low <= RATE <= rate.high, rate.width, free.p_value, stated.p_value


@dataclass(frozen=True)
class Trained:
    """What all repetitions share."""

    graph: KnowledgeGraph
    model: TrainedModel


def _share(trained: Trained) -> None:
    global SHARED
    SHARED = trained


def repetition(kind: str, seed: int) -> list[tuple[float, ...]]:
    """Return the results of one repetition: with a component of the kind of the mistakes, and without it."""
    rng = np.random.default_rng(seed)
    data = drawn(SHARED.graph, SHARED.model, kind, rng)
    rest = {key: one for key, one in data.negatives.items() if key not in (kind, "default")}
    return [fitted(replace(data, negatives=own), rng) for own in (data.negatives, rest)]


def main(name: str, repetitions: int, processes: int) -> None:
    """Print the table."""
    spec = find_dataset(name)
    graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 2_000, 0)).graph
    trained = Trained(graph, trained_model(graph, name, 0))
    print("| mistakes | a component | base rate | covered | width | rejected, stated | rejected, estimated |")
    print("|---|---|---|---|---|---|---|")
    with get_context("fork").Pool(processes, _share, (trained,)) as pool:
        for kind in STRATEGIES:
            found = pool.starmap(repetition, [(kind, seed) for seed in range(repetitions)], 5)
            for known, rows in zip(("yes", "no"), np.array(found).swapaxes(0, 1), strict=True):
                value, holds, width, free, stated = rows.T
                cells = [f"{value.mean():.3f}", f"{holds.mean():.2f}", f"{np.median(width):.3f}"]
                cells += [f"{(stated <= 0.05).mean():.2f}", f"{(free <= 0.05).mean():.2f}"]
                print(f"| {kind} | {known} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
