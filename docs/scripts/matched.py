"""Make the table of data sets in docs/explanation/candidates.md: calibration to unlabelled candidates, and to labels.

    python docs/scripts/matched.py wn11 fb13 > table.md         # seeds 0, 1, 2
    python docs/scripts/matched.py wn11:0 fb13:0 > table.md     # one seed

The candidates are the validation triples with their labels hidden. Each cell is the Brier score on test of isotonic
regression: fitted to the labels, to the mixture with the stated base rate .5, to the mixture with an estimated base
rate, to corruptions of the default strategy, and to uniform ones. Each row trains one model.
"""

import sys

import numpy as np
import torch

from kgcore.arrays import Triples
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.config import CorruptConfig, PipelineConfigs, PrepareConfig
from kgcore.config.presets import resolve
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.measure.metrics import proper
from kgcore.mixture.calibrate import mixture_sample
from kgcore.mixture.fit import MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.samples import MixtureData, ScoreSample
from tasks.workspace.settings import ensure_home, mirror

STRATEGIES = {name: {name: 1.0} for name in ("relational", "typed", "uniform", "near_miss", "nearest")}
STRATEGIES["default"] = {"typed": 0.9, "uniform": 0.1}  # the rule of the presets of WN11 and FB13
STATED, ETA = 0.5, 20


def trained_model(graph: KnowledgeGraph, name: str, seed: int) -> TrainedModel:
    """Train the model of the default preset."""
    config = resolve("default", PipelineConfigs(prepare=PrepareConfig(dataset=name))).configs.train
    return train(graph, config.replace(seed=seed), torch.device("cpu")).model


def mixture_data(
    graph: KnowledgeGraph, model: TrainedModel, seed: int, positives: Triples, triples: Triples, eta: int
) -> MixtureData:
    """Return the scores of positives (n, 3), of their corruptions by each strategy, and of candidate triples (m, 3)."""
    config = CorruptConfig()
    shares = subject_shares(graph, config.calibration_sides)
    negatives = {}
    for name, strategy in STRATEGIES.items():
        drawing = Mixture(graph, strategy)
        drawing.see(model)
        made = corrupt(positives, eta, drawing, np.random.default_rng(seed), shares, graph.known)
        negatives[name] = ScoreSample(model.score(made.triples), made.source, made.triples[:, 1])
    own = ScoreSample(model.score(positives), np.arange(len(positives)), positives[:, 1])
    shared = float(graph.index(triples).contains(positives).mean())
    return MixtureData(own, negatives, ScoreSample(model.score(triples), predicates=triples[:, 1]), shared=shared)


def words(fit: MixtureFit) -> str:
    """Return the strategies with a share of at least a hundredth."""
    return ", ".join(f"{name} {share:.2f}" for name, share in fit.weights.items() if share >= 0.01)


def row(name: str, graph: KnowledgeGraph, seed: int) -> str:
    """Return a row of the table."""
    model = trained_model(graph, name, seed)
    data = mixture_data(graph, model, seed, graph.valid.positives, graph.valid.triples, ETA)
    rng = np.random.default_rng(seed)
    stated = fit_mixture(data, MixtureOptions(STATED), rng)
    free = fit_mixture(data, MixtureOptions(), rng)
    test = graph.test
    scores = model.score(test.triples)

    def brier(sample: CalibrationSample) -> str:
        return f"{proper.brier(Isotonic().fit_sample(sample).calibrate(scores), test.labels):.4f}"

    def synthetic(strategy: str) -> str:
        return brier(synthetic_sample(data.positives.scores, data.negatives[strategy].scores, STATED))

    rate = free.estimated
    cells = [
        brier(ground_truth_sample(data.candidates.scores, graph.valid.labels)),
        brier(mixture_sample(data, STATED, stated.weights)),
        brier(mixture_sample(data, free.base_rate, free.weights)),
        synthetic("default"),
        synthetic("uniform"),
        f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]",
        f"{graph.valid.labels.mean():.3f}",
        words(stated),
        words(free),
        f"{stated.fit.p_value:.3f}, {free.fit.p_value:.3f}",
    ]
    return f"| {name}, seed {seed} | {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    """Print the table."""
    print("| data set | labels | stated | estimated | default | uniform | base rate | true | mistakes | | p of fit |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for argument in names:
        name, _, seed = argument.partition(":")
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 0, 0)).graph
        for own in [int(seed)] if seed else (0, 1, 2):
            print(row(name, graph, own), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
