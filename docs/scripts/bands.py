"""Make the table of limits in docs/explanation/candidates.md: how often they hold the true probability.

    python docs/scripts/bands.py 500 2 > table.md        # repetitions, processes

Scores are normal: true triples have N(1, 1), the two strategies N(-1, 1) and N(-2, 1). The mistakes of the candidates
are those of the first strategy, or N(-0.3, 0.8), which no strategy resembles. Each repetition draws 500 positives, ten
corruptions of each by each strategy, and 2,000 candidates at the base rate .3, which is stated. The limits are compared
with the true probability at the scores that 5, 25, 50, 75 and 95 % of the candidates do not exceed.
"""

import sys
from multiprocessing import get_context

import numpy as np
from scipy.stats import norm

from kgcore.calibration.mixed import fit_to_candidates
from kgcore.mixture.fit import MixtureOptions, fit_mixture
from kgcore.mixture.samples import MixtureData, ScoreSample
from kgcore.registries import CALIBRATORS

RATE, REPLICATES, LEVELS = 0.3, 100, (0.05, 0.25, 0.5, 0.75, 0.95)
WORLDS = {"like a strategy": (-1.0, 1.0), "like no strategy": (-0.3, 0.8)}
NAMES = ("smoothed_isotonic",)


def places(mistakes: tuple[float, float]) -> np.ndarray:
    """Return the scores that the shares LEVELS of the candidates do not exceed."""
    grid = np.linspace(-8, 8, 16_001)
    return np.interp(LEVELS, RATE * norm.cdf(grid, 1) + (1 - RATE) * norm.cdf(grid, *mistakes), grid)


def covered(world: str, seed: int) -> np.ndarray:
    """Return whether the limits hold the truth (calibrators, places), their widths, and the remainder's share."""
    rng, mistakes = np.random.default_rng(seed), WORLDS[world]
    source = np.repeat(np.arange(500), 10)
    negatives = {f"strategy {mean}": ScoreSample(rng.normal(mean, 1, 5_000), source) for mean in (-1, -2)}
    true = rng.random(2_000) < RATE
    scores = np.where(true, rng.normal(1, 1, 2_000), rng.normal(*mistakes, 2_000))
    data = MixtureData(ScoreSample(rng.normal(1, 1, 500), np.arange(500)), negatives, ScoreSample(scores))
    fit = fit_mixture(data, MixtureOptions(RATE, replicates=60), rng)
    at = places(mistakes)
    positive = RATE * norm.pdf(at, 1)
    truth = positive / (positive + (1 - RATE) * norm.pdf(at, *mistakes))
    found = []
    for name in NAMES:
        _, band = fit_to_candidates(data, fit, CALIBRATORS.get(name), REPLICATES, rng)
        low, high = band.limits(at)
        found.append([(low <= truth) & (truth <= high), high - low, np.full(len(at), fit.remainder)])
    return np.array(found, dtype=float)


def main(repetitions: int, processes: int) -> None:
    """Print the table."""
    print(
        "| mistakes | calibrator |", " | ".join(f"{level:.0%}" for level in LEVELS), "| all | mean width | remainder |"
    )
    print("|---" * (5 + len(LEVELS)) + "|")
    with get_context("spawn").Pool(processes) as pool:
        for world in WORLDS:
            found = np.array(pool.starmap(covered, [(world, seed) for seed in range(repetitions)], 5))
            for number, name in enumerate(NAMES):
                holds, width, rest = found[:, number].mean(axis=0)
                cells = [f"{one:.3f}" for one in (*holds, holds.mean(), width.mean(), rest.mean())]
                print(f"| {world} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
