"""Make the first table of docs/explanation/splits.md: calibrators of several splits, where the truth is known.

    python docs/scripts/splits_simulated.py 40 > table.md       # worlds

A world has drugs, diseases and genes with hidden types. The probability that a drug treats a disease follows from their
types and from an effect of each. The facts and labelled pairs of a file are split by `--split`, a model is trained on
train, and calibrators are fitted twice: to the valid of this split, and to a valid at random. Their errors are taken
over all pairs of the kind that is asked about, with the probabilities of the world and without sampling error. The
intervals are those of `kgcal run` for test; the table says how often they hold the error, or the Brier score, of all
these pairs.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from kgcore.config import CalibrateConfig, EvaluateConfig, TrainConfig
from kgcore.config.base import SplitRule
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.draw import SplitDraw
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.registries import CALIBRATORS

TREATS = "treats"
NAMES = tuple(name for name in CalibrateConfig().calibrators if name in ("beta", "smoothed_isotonic"))
TRAINING = TrainConfig(k=32, epochs=40, training_eta=10, batch_size=512, learning_rate=0.01)
RANDOM_SHARE = 0.1  # of the labelled pairs that form a valid at random
FIRST, LAST = 2000, 2019  # years


@dataclass(frozen=True)
class World:
    """Hidden types, and what follows from them.

    drugs, diseases, genes, types  their numbers. As many further diseases have genes but no labelled pairs: they are
                                   the cold diseases that a user asks about
    pairs                          number of labelled pairs of a drug and a disease, drawn at random
    """

    seed: int = 0
    drugs: int = 600
    diseases: int = 1_500
    genes: int = 250
    types: int = 6
    pairs: int = 100_000

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def _kinds(self) -> tuple[np.ndarray, ...]:
        return tuple(self._rng.integers(0, self.types, n) for n in (self.drugs, 2 * self.diseases, self.genes))

    @cached_property
    def truth(self) -> np.ndarray:
        """The probability (drugs, 2 diseases) that a drug treats a disease."""
        drug, disease, _ = self._kinds
        effects = self._rng.normal(0, 0.4, self.drugs)[:, None] + self._rng.normal(0, 0.4, 2 * self.diseases)
        return np.asarray(1 / (1 + np.exp(2.4 - 3.4 * (drug[:, None] == disease) - effects)))

    @cached_property
    def years(self) -> np.ndarray:
        """The year (drugs, 2 diseases) in which a pair is examined: some time after both are known."""
        known = [self._rng.integers(FIRST, LAST + 1, n) for n in (self.drugs, 2 * self.diseases)]
        later = self._rng.geometric(0.1, self.truth.shape) - 1
        return np.asarray(np.maximum(known[0][:, None], known[1]) + later)

    @cached_property
    def examined(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The labelled pairs: drugs, diseases and labels (pairs,)."""
        truth = self.truth
        drugs, diseases = np.nonzero(self.years[:, : self.diseases] <= LAST)
        chosen = self._rng.choice(len(drugs), self.pairs, replace=False)
        drug, disease = drugs[chosen], diseases[chosen]
        return drug, disease, self._rng.random(self.pairs) < truth[drug, disease]

    def facts(self) -> Iterator[str]:
        """Yield the lines about genes. They are known from the first year."""
        drug, disease, gene = self._kinds
        for word, kinds, name, mean in (("targets", drug, "drug", 3), ("linked", disease, "disease", 4)):
            for number, kind in enumerate(kinds.tolist()):
                same = self._rng.random(1 + self._rng.poisson(mean)) < 0.8
                genes = [int(self._rng.choice(np.flatnonzero(gene == kind) if one else self.genes)) for one in same]
                yield from (f"{name}{number}\t{word}\tgene{g}\t1\t{FIRST}" for g in sorted(set(genes)))


@dataclass(frozen=True)
class Drawn:
    """A graph that was split, and a valid at random of the same world: triples and labels."""

    graph: KnowledgeGraph
    at_random: Split


def drawn(world: World, rule: str, folder: Path) -> Drawn:
    """Write the file of a world without a tenth of its labelled pairs, split it, and number this tenth."""
    rng = np.random.default_rng(world.seed)
    drug, disease, label = world.examined
    year = world.years[drug, disease]
    aside = rng.random(len(drug)) < RANDOM_SHARE
    path = folder / "world.tsv"
    lines = [
        f"drug{d}\t{TREATS}\tdisease{e}\t{int(y)}\t{t}"
        for d, e, y, t in zip(drug[~aside], disease[~aside], label[~aside], year[~aside], strict=True)
    ]
    path.write_text("\n".join(["subject\tpredicate\tobject\tlabel\tyear", *world.facts(), *lines]) + "\n")
    found = prepare(find_dataset(str(path)), folder, draw=SplitDraw(0.1, 0.1, world.seed, SplitRule.of(rule)))
    graph = found.graph
    triples, known = numbered(graph, drug[aside], disease[aside])
    # like train: with diseases that have the predicate there, and older than valid
    warm = np.isin(triples[:, 2], graph.train.triples[graph.train.triples[:, 1] == triples[0, 1], 2])
    usable = known & (warm if rule.startswith("cold") else year[aside] < begin(found))
    return Drawn(graph, Split(triples[usable], label[aside][usable].astype(np.float64)))


def begin(found: Prepared, split: str = "Valid begins at ") -> int:
    """Return the first year of valid, or of test."""
    return int(found.drawn.partition(split)[2].replace(",", " ").replace(".", " ").split()[0])


def numbered(graph: KnowledgeGraph, drug: np.ndarray, disease: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return triples (n, 3) of pairs of drugs and diseases, and whether the graph knows both."""
    places = {name: place for place, name in enumerate(graph.entities)}
    s = np.array([places.get(f"drug{one}", -1) for one in drug.tolist()])
    o = np.array([places.get(f"disease{one}", -1) for one in disease.tolist()])
    p = list(graph.predicates).index(TREATS)
    return np.stack([s, np.full_like(s, p), o], axis=1), (s >= 0) & (o >= 0)


def asked(world: World, rule: str, graph: KnowledgeGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that a user asks about as triples (n, 3), and the probability (n,) that each is true.

    Cold: drugs for the diseases that have no labelled pair. Time: all pairs of the years of test.
    """
    if rule.startswith("cold"):
        drug, disease = np.nonzero(world.years[:, world.diseases :] <= LAST)
        disease = disease + world.diseases
    else:
        years = world.years[:, : world.diseases]
        drug, disease = np.nonzero((years >= test_begin(world, graph)) & (years <= LAST))
    triples, known = numbered(graph, drug, disease)
    return triples[known], world.truth[drug, disease][known]


def test_begin(world: World, graph: KnowledgeGraph) -> int:
    """Return the first year of test, from the years of its pairs."""
    first = [(graph.entities[s], graph.entities[o]) for s, _, o in graph.test.triples.tolist()]
    return int(min(world.years[int(s.removeprefix("drug")), int(o.removeprefix("disease"))] for s, o in first))


@dataclass(frozen=True)
class Outcome:
    """What one calibrator does in one world: of valid like test, and of a valid at random.

    error, at_random  calibration error over all pairs asked about, with the world's probabilities
    low, high         interval of the debiased RMSCE on test
    holds             whether the intervals of the debiased RMSCE and of the Brier score hold what they estimate
    """

    error: float
    at_random: float
    debiased: float
    debiased_at_random: float
    low: float
    high: float
    holds: tuple[bool, bool]


def calibration_error(q: np.ndarray, truth: np.ndarray, bins: int = 10) -> float:
    """Return the root mean square of mean probability minus mean truth over bins of equal mass."""
    order = np.argsort(q, kind="stable")
    parts = np.array_split(order, bins)
    return float(np.sqrt(np.mean([(q[part].mean() - truth[part].mean()) ** 2 for part in parts])))


def outcomes(world: World, rule: str) -> dict[str, Outcome]:
    """Return calibrator -> its outcome in one world with one split."""
    with TemporaryDirectory() as folder:
        data = drawn(world, rule, Path(folder))
    graph = data.graph
    model = train(graph, TRAINING, torch.device("cpu")).model
    triples, truth = asked(world, rule, graph)
    q_asked, on_test = {}, {}
    treats = list(graph.predicates).index(TREATS)
    test = graph.test.part(graph.test.triples[:, 1] == treats)
    for word, valid in (("like", graph.valid.part(graph.valid.triples[:, 1] == treats)), ("random", data.at_random)):
        for name in NAMES:
            fitted = fit(model, name, valid)
            q_asked[word, name] = fitted(triples)
            on_test[f"{word}.{name}"] = fitted(test.triples)
    cold = 2 if rule.startswith("cold") else None
    judged = Predictions(
        test.triples,
        test.labels,
        np.ones(len(test)),
        np.zeros(len(test)),
        on_test,
        {},
        {},
        [],
        synthetic_negatives=False,
    )
    measured = evaluate(judged, EvaluateConfig(), cold=cold)
    found = {}
    for name in NAMES:
        q, here = q_asked["like", name], measured[f"like.{name}"]
        error = calibration_error(q, truth)
        brier = float(np.mean(truth * (1 - q) ** 2 + (1 - truth) * q**2))
        low, high = here.intervals["debiased_rmsce"]
        least, most = here.intervals["brier"]
        found[name] = Outcome(
            error,
            calibration_error(q_asked["random", name], truth),
            here.metrics["debiased_rmsce"],
            measured[f"random.{name}"].metrics["debiased_rmsce"],
            low,
            high,
            (low <= error <= high, least <= brier <= most),
        )
    return found


def fit(model: TrainedModel, name: str, valid: Split):  # type: ignore[no-untyped-def]
    """Return the function from triples to probabilities of a calibrator that is fitted to labelled triples."""
    calibrator = CALIBRATORS.get(name)()
    calibrator.fit(model.score(valid.triples), valid.labels)
    return lambda triples: calibrator.calibrate(model.score(triples))


HEAD = (
    "split",
    "calibrator",
    "error, random valid",
    "error, valid like test",
    "debiased RMSCE at most .02, or its interval holds 0",
    "its interval holds the error",
    "the interval of the Brier score holds it",
)


def main(worlds: int) -> None:
    """Print the table, and every outcome to the standard error."""
    print(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|")
    for rule in ("cold:object:treats", "time:year"):
        every = []
        for seed in range(worlds):
            every.append(outcomes(World(seed), rule))
            print(rule, seed, every[-1], file=sys.stderr, flush=True)
        for name in NAMES:
            rows = [one[name] for one in every]
            cells = [f"{np.mean([r.at_random for r in rows]):.3f}", f"{np.mean([r.error for r in rows]):.3f}"]
            cells += [f"{np.mean([r.debiased <= 0.02 or r.low <= 0 for r in rows]):.2f}"]
            cells += [f"{np.mean([r.holds[place] for r in rows]):.2f}" for place in (0, 1)]
            print(f"| `{rule}` | {name.replace('_', ' ')} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
