"""Make the table of hard mistakes in docs/explanation/candidates.md: mistakes that were found by another model.

    python docs/scripts/hard.py wn18rr:60 fb15k-237:20 > table.md        # data sets or folders, and epochs

Two models are trained, TransE and ComplEx; each is calibrated in turn, and the other one finds mistakes. A mistake is
made of each positive of valid and test:

* other, first   the highest of 60 corruptions (.7 typed, .3 uniform) by the other model
* other, top 5   one of the five highest of 150
* other seed     one of the two highest of 40 typed corruptions by a TransE of another seed
* own            one of the three highest of 10 typed corruptions by the model that is calibrated
* mixed          half of them `other, first`, half relational corruptions
* labelled       the labelled negatives of the data set, if it has some

Known facts of all splits are no mistakes. The positives of the fit are 1,300 validation positives. The
candidates are as many true triples and mistakes, at a stated base rate: of the validation split, with the labels
hidden, or of one half of test. Brier scores are measured on test, or on its other half.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matched import STRATEGIES

from kgcore.arrays import Scores, Triples
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.config import CorruptConfig, PipelineConfigs, PrepareConfig, TrainConfig
from kgcore.config.presets import resolve
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.mixture.calibrate import mixture_sample
from kgcore.mixture.fit import MixtureOptions, fit_mixture
from kgcore.mixture.remainder import REMAINDER
from kgcore.mixture.samples import MixtureData, ScoreSample
from kgcore.registries import CALIBRATORS
from tasks.workspace.settings import ensure_home, mirror

ETA, POSITIVES, RATES = 10, 1_300, (0.5, 0.2)
NAMES = ("smoothed_isotonic", "beta")


@dataclass(frozen=True)
class Pool:
    """Scores by one model.

    positives   (of valid, of test)
    components  strategy -> scores of corruptions of the validation positives, and the positive of each
    mistakes    kind -> (of valid, of test)
    """

    positives: tuple[Scores, Scores]
    components: dict[str, tuple[Scores, np.ndarray]]
    mistakes: dict[str, tuple[Scores, Scores]]


def trained(graph: KnowledgeGraph, model: str, seed: int, epochs: int) -> TrainedModel:
    """Train a model with the settings of the default preset."""
    given = PipelineConfigs(prepare=PrepareConfig(dataset="wn11"), train=TrainConfig(model=model))
    config = resolve("default", given).configs.train.replace(seed=seed, epochs=epochs)
    return train(graph, config, torch.device("cpu")).model


class Finder:
    """Finds mistakes in a graph."""

    def __init__(self, graph: KnowledgeGraph, rng: np.random.Generator) -> None:
        self._graph, self._rng = graph, rng
        self._shares = subject_shares(graph, CorruptConfig().calibration_sides)

    def corruptions(self, sources: Triples, eta: int, strategy: Mixture) -> tuple[Triples, np.ndarray]:
        """Return corruptions of triples (n, 3), and the number of the source of each."""
        made = corrupt(sources, eta, strategy, self._rng, self._shares, self._graph.known)
        return made.triples, made.source

    def highest(self, judge: TrainedModel, sources: Triples, among: int, top: int, shares: dict[str, float]) -> Triples:
        """Return one mistake for each source: one of the `top` highest of `among` corruptions by a model."""
        triples, source = self.corruptions(sources, among, Mixture(self._graph, shares))
        order = np.lexsort((-judge.score(triples), source))
        first = np.r_[0, np.flatnonzero(np.diff(source[order])) + 1]
        sizes = np.diff(np.r_[first, len(order)])
        return triples[order][first + np.minimum(self._rng.integers(0, top, len(first)), sizes - 1)]


def pools(graph: KnowledgeGraph, epochs: int) -> dict[str, Pool]:
    """Return the scores by each of the two models."""
    models = {name: trained(graph, name, 0, epochs) for name in ("transe", "complex")}
    second = trained(graph, "transe", 1, epochs)
    mixed, typed = {"typed": 0.7, "uniform": 0.3}, {"typed": 1.0}
    made = {}
    for name, other in (("transe", "complex"), ("complex", "transe")):
        model, found = models[name], {}
        for split, seed in (("valid", 5), ("test", 6)):
            finder, triples = Finder(graph, np.random.default_rng(seed)), getattr(graph, split).positives
            kinds = {
                "other, first": finder.highest(models[other], triples, 60, 1, mixed),
                "other, top 5": finder.highest(models[other], triples, 150, 5, mixed),
                "other seed": finder.highest(second, triples, 40, 2, typed),
                "own": finder.highest(model, triples, 10, 3, typed),
            }
            easy = finder.highest(model, triples, 1, 1, {"relational": 1.0})
            kinds["mixed"] = np.concatenate([kinds["other, first"][::2], easy[1::2]])
            own = getattr(graph, split)
            if (own.labels == 0).any():
                kinds["labelled"] = own.triples[own.labels == 0]
            found[split] = {kind: model.score(wrong) for kind, wrong in kinds.items()}
        finder, components = Finder(graph, np.random.default_rng(0)), {}
        for strategy, shares in STRATEGIES.items():
            drawing = Mixture(graph, shares)
            drawing.see(model)
            triples, source = finder.corruptions(graph.valid.positives, ETA, drawing)
            components[strategy] = (model.score(triples), source)
        scores = (model.score(graph.valid.positives), model.score(graph.test.positives))
        mistakes = {kind: (found["valid"][kind], found["test"][kind]) for kind in found["valid"]}
        made[name] = Pool(scores, components, mistakes)
    return made


def thinned(true: Scores, wrong: Scores, rate: float) -> tuple[Scores, Scores]:
    """Return the first of both, so that the share `rate` is true."""
    n = min(len(true) / rate, len(wrong) / (1 - rate))
    return true[: int(rate * n)], wrong[: int((1 - rate) * n)]


def measured(pool: Pool, kind: str, rate: float, candidates: str, most: int) -> tuple[np.ndarray, float]:
    """Return Brier scores (calibrators, 5) and the share of the remainder.

    The five are: fitted to labels, and how much worse are the strategies, the remainder, the mixture of both, and
    corruptions of the default strategy.
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(pool.positives[0]))[:most])
    positives = pool.positives[0][rows]
    components = {
        name: ScoreSample(scores[np.isin(source, rows)], source[np.isin(source, rows)])
        for name, (scores, source) in pool.components.items()
    }
    true, wrong = thinned(positives, rng.permutation(pool.mistakes[kind][0])[:most], rate)
    labels = ground_truth_sample(np.r_[true, wrong], np.r_[np.ones(len(true)), np.zeros(len(wrong))])
    right, bad = rng.permutation(pool.positives[1]), rng.permutation(pool.mistakes[kind][1])
    if candidates == "test":
        half = len(right) // 2, len(bad) // 2
        true, wrong = thinned(right[: half[0]][:most], bad[: half[1]][:most], rate)
        right, bad = right[half[0] :], bad[half[1] :]
    data = MixtureData(ScoreSample(positives, rows), components, ScoreSample(np.r_[true, wrong]))
    fit = fit_mixture(data, MixtureOptions(rate, replicates=60), rng)
    alone = {name: share.value for name, share in fit.shares.items()}
    rest = dict.fromkeys(alone, 0.0) | {REMAINDER: 1.0}
    samples = [labels, *(mixture_sample(data, rate, own) for own in (alone, rest, fit.weights))]
    samples.append(synthetic_sample(positives, components["default"].scores, rate))

    def brier(name: str, sample: CalibrationSample) -> float:
        fitted = CALIBRATORS.get(name)().fit_sample(sample)
        of_true = np.mean((1 - fitted.calibrate(right)) ** 2)
        return float(rate * of_true + (1 - rate) * np.mean(fitted.calibrate(bad) ** 2))

    found = np.array([[brier(name, sample) for sample in samples] for name in NAMES])
    found[:, 1:] -= found[:, :1]
    return found, fit.remainder


def rows_of(name: str, made: dict[str, Pool]) -> None:
    """Print the rows of a data set: the mean and the greatest value over calibrators, models and candidates."""
    kinds = next(iter(made.values())).mistakes
    for kind in kinds:
        for rate in RATES:
            found = [
                measured(pool, kind, rate, place, POSITIVES) for pool in made.values() for place in ("valid", "test")
            ]
            values, rest = np.array([one for one, _ in found]), np.mean([share for _, share in found])
            values = values.reshape(-1, values.shape[-1])
            means, most = values.mean(axis=0), values.max(axis=0)
            cells = [f"{means[0]:.3f}", *(f"{m:+.4f}, {h:+.4f}" for m, h in zip(means[1:], most[1:], strict=True))]
            print(f"| {name} | {kind} | {rate:g} | {' | '.join(cells)} | {rest:.2f} |", flush=True)


def main(names: list[str]) -> None:
    """Print the table."""
    print("| data set | mistakes | base rate | labels | strategies | remainder | both | default | share |")
    print("|---|---|---|---|---|---|---|---|---|")
    for argument in names:
        name, _, epochs = argument.partition(":")
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 2_000, 0)).graph
        rows_of(Path(name).name, pools(graph, int(epochs or 30)))


if __name__ == "__main__":
    main(sys.argv[1:])
