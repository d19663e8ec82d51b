"""Make the simulated tables of docs/explanation/candidates.md: known mixtures, fitted by kgcore.mixture.

    python docs/scripts/candidates.py coverage bins fit relations 500 2      # tables, repetitions, processes

Scores are normal with standard deviation 1; those of true triples have mean 1. Every repetition draws all samples anew.
"""

import sys
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from kgcore.mixture.em import solve
from kgcore.mixture.fit import MixtureOptions, fit_mixture
from kgcore.mixture.goodness import fitness_of, simulated
from kgcore.mixture.interval import base_rate_interval, flat_likelihood, interval_level, p_values
from kgcore.mixture.relations import fit_relations
from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample, bin_edges, count, number_of_bins


@dataclass(frozen=True)
class World:
    """A known mixture of normal scores.

    means      mean score of the corruptions of each strategy
    shares     share of each strategy in the mistakes
    base_rate  share of true triples in the candidates
    eta        corruptions of a positive; those of one positive share a part of their score
    within     correlation of the scores of one positive's corruptions
    foreign    share of the mistakes that no strategy resembles, and their mean and standard deviation
    """

    name: str
    means: tuple[float, ...]
    shares: tuple[float, ...]
    base_rate: float = 0.5
    positives: int = 500
    candidates: int = 2_000
    labels: int = 0
    eta: int = 20
    within: float = 0.0
    foreign: tuple[float, float, float] = (0.0, 0.0, 1.0)

    def draw(self, rng: np.random.Generator) -> MixtureData:
        """Draw all samples."""
        source = np.repeat(np.arange(self.positives), self.eta)
        negatives = {}
        for number, mean in enumerate(self.means):
            common = rng.normal(size=self.positives)[source] * np.sqrt(self.within)
            own = rng.normal(size=len(source)) * np.sqrt(1 - self.within)
            negatives[f"strategy {number + 1}"] = ScoreSample(mean + common + own, source)
        scores, true = self.judge(self.candidates + self.labels, rng)
        labelled = LabelledCandidates(ScoreSample(scores[self.candidates :]), true[self.candidates :])
        positives = ScoreSample(rng.normal(1, 1, self.positives))
        return MixtureData(positives, negatives, ScoreSample(scores[: self.candidates]), labelled)

    def judge(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw the scores and the truth of n candidates."""
        true = rng.random(n) < self.base_rate
        mistake = rng.normal(np.array(self.means)[rng.choice(len(self.means), n, p=self.shares)])
        share, mean, deviation = self.foreign
        mistake = np.where(rng.random(n) < share, rng.normal(mean, deviation, n), mistake)
        return np.where(true, rng.normal(1, 1, n), mistake), true.astype(float)


WIDTHS = 40  # repetitions for which the width is computed
FOUR = (-1.0, -0.5, -2.0, 0.0)
WORLDS = (
    World("one of four strategies", FOUR, (1, 0, 0, 0)),
    World("two of four strategies", FOUR, (0.5, 0, 0.5, 0)),
    World("all of four strategies", FOUR, (0.25, 0.25, 0.25, 0.25)),
    World("3,000 positives, 5,000 candidates", FOUR, (0.5, 0, 0.5, 0), positives=3_000, candidates=5_000),
    World("100 positives", FOUR, (0.5, 0, 0.5, 0), positives=100),
    World("base rate .1", FOUR, (0.5, 0, 0.5, 0), 0.1),
    World("base rate .01", FOUR, (0.5, 0, 0.5, 0), 0.01),
    World("base rate .01, 20,000 candidates", FOUR, (0.5, 0, 0.5, 0), 0.01, candidates=20_000),
    World("base rate .9", FOUR, (0.5, 0, 0.5, 0), 0.9),
    World("dependent corruptions", (-1.0, -2.0), (0.5, 0.5), within=0.5, positives=300),
    World("well separated", (-2.0, -3.0), (0.5, 0.5)),
    World("nearly flat", (-1.0, 0.7), (0, 1)),
    World("flat", (-1.0, 0.95), (0, 1)),
    World("flat, 100 labels", (-1.0, 0.95), (0, 1), labels=100),
    World("one of four strategies, 50 labels", FOUR, (1, 0, 0, 0), labels=50),
    World("one of four strategies, 200 labels", FOUR, (1, 0, 0, 0), labels=200),
)
FOREIGN = (
    World("one of four strategies", FOUR, (1, 0, 0, 0)),
    World("all of four strategies", FOUR, (0.25, 0.25, 0.25, 0.25)),
    World("dependent corruptions", (-1.0, -2.0), (0.5, 0.5), within=0.5),
    World("foreign: above every true triple's mean", FOUR, (1, 0, 0, 0), foreign=(1.0, 2.0, 1.0)),
    World("foreign: between the strategies, and narrow", FOUR, (1, 0, 0, 0), foreign=(1.0, -0.5, 0.5)),
    World("foreign: below all strategies", FOUR, (1, 0, 0, 0), foreign=(1.0, -3.5, 1.0)),
    World("half of the mistakes foreign: above", FOUR, (1, 0, 0, 0), foreign=(0.5, 2.5, 0.7)),
)


def covered(world: World, seed: int) -> tuple[float, bool, float]:
    """Return the estimate, whether the interval holds the truth, and the interval's width: NaN after WIDTHS of them.

    The interval holds the base rates whose p-value reaches a level of at most .05. So the level, which takes most of
    the time, is needed only if the p-value of the truth is smaller than that.
    """
    rng = np.random.default_rng(seed)
    data = world.draw(rng)
    counts = count(data, bin_edges(data, number_of_bins(data)))
    best = solve(counts)
    at = solve(counts, np.array([world.base_rate]), start=best)
    p = p_values(counts, at, np.maximum(best.likelihood, at.likelihood), flat_likelihood(counts))[0]
    width, level = np.nan, 0.05
    if p < 0.05 or seed < WIDTHS:
        level = interval_level(counts, best, 200, rng)
    if seed < WIDTHS:
        width = base_rate_interval(counts, best, level)[0].width
    return float(best.weights[0, 0]), bool(p >= level), width


def coverage(repetitions: int, pool: "object") -> None:
    """Print the coverage of the intervals of the base rate."""
    print("| candidates | base rate | mean estimate | coverage | missed, too low | missed, too high | median width |")
    print("|---|---|---|---|---|---|---|")
    for world in WORLDS:
        found = np.array(pool.starmap(covered, [(world, seed) for seed in range(repetitions)], 5))
        value, holds, width = found.T
        low = (holds == 0) & (value < world.base_rate)
        cells = [
            f"{value.mean():.3f}",
            f"{holds.mean():.3f}",
            f"{low.mean():.3f}",
            f"{1 - holds.mean() - low.mean():.3f}",
        ]
        print(f"| {world.name} | {world.base_rate:g} | {' | '.join(cells)} | {np.nanmedian(width):.3f} |", flush=True)


def by_bins(world: World, seed: int) -> list[float]:
    """Return the estimates with several numbers of bins, and the interval's width over 3.92 with the default number."""
    data = world.draw(np.random.default_rng(seed))
    values = [float(solve(count(data, bin_edges(data, own))).weights[0, 0]) for own in BINS]
    counts = count(data, bin_edges(data, number_of_bins(data)))
    return [*values, base_rate_interval(counts, solve(counts), 0.05)[0].width / 3.92]


BINS = (20, 30, 40, 60, 80, 120, 200)


def bins(repetitions: int, pool: "object") -> None:
    """Print how far estimates with other numbers of bins are from that with 40, in standard errors."""
    print("| candidates | standard error |", " | ".join(f"{own} bins" for own in BINS), "|")
    print("|---" * (2 + len(BINS)) + "|")
    for world in (WORLDS[0], WORLDS[1], WORLDS[3], WORLDS[5], WORLDS[6], WORLDS[10]):
        found = np.array(pool.starmap(by_bins, [(world, seed) for seed in range(min(100, repetitions))], 5))
        error = found[:, -1].mean()
        apart = np.sqrt(((found[:, :-1] - found[:, [BINS.index(40)]]) ** 2).mean(axis=0)) / error
        print(f"| {world.name} | {error:.4f} | {' | '.join(f'{one:.2f}' for one in apart)} |", flush=True)


def tested(world: World, stated: bool, seed: int) -> float:
    """Return the p-value of the test of fit in one repetition."""
    rng = np.random.default_rng(seed)
    data = world.draw(rng)
    counts = count(data, bin_edges(data, number_of_bins(data)))
    alpha = world.base_rate if stated else None
    best = solve(counts, None if alpha is None else np.array([alpha]))
    return fitness_of(simulated(counts, best, alpha, 200, rng)).p_value


def fit(repetitions: int, pool: "object") -> None:
    """Print how often the test of fit rejects."""
    print("| candidates | base rate | rejected at .05 | at .01 |\n|---|---|---|---|")
    for world in FOREIGN:
        for stated in (True, False):
            p = np.array(pool.starmap(tested, [(world, stated, seed) for seed in range(repetitions)], 5))
            words = "stated" if stated else "estimated"
            print(f"| {world.name} | {words} | {(p <= 0.05).mean():.3f} | {(p <= 0.01).mean():.3f} |", flush=True)


RATES = (0.1, 0.3, 0.5, 0.5, 0.5, 0.7, 0.9)


def of_relations(seed: int) -> list[tuple[float, float, float, float]]:
    """Return estimate, shrunk estimate and limits of each relation in one repetition. Their sizes and shares differ."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, rate in enumerate(RATES):
        shares = tuple(rng.dirichlet([5.0, 5.0]).tolist())
        sizes = {"positives": 60 + 60 * number, "candidates": 150 + 150 * number}
        world = World("", (-1.5 - 0.1 * number, -0.5), shares, rate, **sizes)
        parts.append(_labelled(world.draw(rng), number))
    names = tuple(parts[0].negatives)
    data = MixtureData(
        _join([part.positives for part in parts]),
        {name: _join([part.negatives[name] for part in parts]) for name in names},
        _join([part.candidates for part in parts]),
    )
    weights = fit_mixture(data, MixtureOptions(replicates=20), rng).weights
    return [
        (one.own.value, one.shrunk, one.own.low, one.own.high)
        for one in fit_relations(data, weights, rng, replicates=100)
    ]


def _labelled(data: MixtureData, predicate: int) -> MixtureData:
    def own(sample: ScoreSample) -> ScoreSample:
        groups = None if sample.groups is None else sample.groups + 10_000 * predicate
        return ScoreSample(sample.scores, groups, np.full(len(sample), predicate))

    negatives = {name: own(sample) for name, sample in data.negatives.items()}
    return replace(data, positives=own(data.positives), negatives=negatives, candidates=own(data.candidates))


def _join(samples: list[ScoreSample]) -> ScoreSample:
    groups = None if samples[0].groups is None else np.concatenate([s.groups for s in samples])
    return ScoreSample(
        np.concatenate([s.scores for s in samples]), groups, np.concatenate([s.predicates for s in samples])
    )


def relations(repetitions: int, pool: "object") -> None:
    """Print coverage and errors by relation."""
    found = np.array(pool.starmap(of_relations, [(seed,) for seed in range(repetitions)], 5))
    print("| positives | candidates | base rate | coverage | median width | error, own | error, shrunk |")
    print("|---|---|---|---|---|---|---|")
    for number, rate in enumerate(RATES):
        value, shrunk, low, high = found[:, number].T
        cells = [f"{60 + 60 * number}", f"{150 + 150 * number}", f"{rate:g}"]
        cells += [f"{((low <= rate) & (rate <= high)).mean():.3f}", f"{np.median(high - low):.3f}"]
        cells += [f"{np.sqrt(((own - rate) ** 2).mean()):.3f}" for own in (value, shrunk)]
        print(f"| {' | '.join(cells)} |", flush=True)


TABLES = {"coverage": coverage, "bins": bins, "fit": fit, "relations": relations}

if __name__ == "__main__":
    *names, repetitions, processes = sys.argv[1:]
    with get_context("spawn").Pool(int(processes)) as pool:
        for name in names:
            print(f"\n**{name}**\n")
            TABLES[name](int(repetitions), pool)
