"""Make the table of limits in docs/explanation/candidates.md: how often they hold the true probability.

    python docs/scripts/bands.py 500 2 > table.md        # repetitions, processes

Each repetition draws positives, ten corruptions of each by each of two strategies, and candidates at a stated base
rate. The limits are compared with the true probability at the scores that 5, 25, 50, 75 and 95 % of the candidates do
not exceed. The rule for the limits was chosen with the first six worlds. The last two were not used for it.
"""

import sys
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy import stats

from kgcore.mixture.calibrate import fit_to_candidates
from kgcore.mixture.fit import MixtureOptions, fit_mixture
from kgcore.mixture.samples import MixtureData, ScoreSample
from kgcore.registries import CALIBRATORS

REPLICATES, ETA, LEVELS = 100, 10, (0.05, 0.25, 0.5, 0.75, 0.95)
CALIBRATOR = "smoothed_isotonic"


@dataclass(frozen=True)
class World:
    """Where scores come from: (mean, standard deviation) of normal scores.

    tails   degrees of freedom of Student's t distribution, which replaces the normal one; 0: normal
    """

    mistakes: tuple[float, float]
    true: tuple[float, float] = (1.0, 1.0)
    strategies: tuple[tuple[float, float], ...] = ((-1.0, 1.0), (-2.0, 1.0))
    base_rate: float = 0.3
    positives: int = 500
    candidates: int = 2_000
    tails: int = 0

    def scores(self, parameters: tuple[float, float]) -> Any:
        """Return the distribution of scores with these parameters."""
        return stats.t(self.tails, *parameters) if self.tails else stats.norm(*parameters)

    def draw(self, rng: np.random.Generator) -> MixtureData:
        """Draw all samples."""

        def drawn(parameters: tuple[float, float], n: int) -> np.ndarray:
            return np.asarray(self.scores(parameters).rvs(n, random_state=rng))

        source = np.repeat(np.arange(self.positives), ETA)
        negatives = {str(own): ScoreSample(drawn(own, len(source)), source) for own in self.strategies}
        true = rng.random(self.candidates) < self.base_rate
        scores = np.where(true, drawn(self.true, self.candidates), drawn(self.mistakes, self.candidates))
        positives = ScoreSample(drawn(self.true, self.positives), np.arange(self.positives))
        return MixtureData(positives, negatives, ScoreSample(scores))

    def places(self) -> np.ndarray:
        """Return the scores that the shares LEVELS of the candidates do not exceed."""
        grid = np.linspace(-30, 30, 60_001)
        true, wrong = (self.scores(own).cdf(grid) for own in (self.true, self.mistakes))
        return np.interp(LEVELS, self.base_rate * true + (1 - self.base_rate) * wrong, grid)

    def truth(self, at: np.ndarray) -> np.ndarray:
        """Return the true probability at each score."""
        positive = self.base_rate * self.scores(self.true).pdf(at)
        return np.asarray(positive / (positive + (1 - self.base_rate) * self.scores(self.mistakes).pdf(at)))


_FAR = ((-2.0, 1.0), (-3.0, 1.0))
WORLDS = {
    "like a strategy": World((-1.0, 1.0)),
    "like no strategy": World((-0.3, 0.8)),
    "heavy tails, base rate .05, like a strategy": World((-1.0, 1.0), tails=3, base_rate=0.05),
    "heavy tails, base rate .05, like no strategy": World((-0.3, 0.8), tails=3, base_rate=0.05),
    "well separated, 300 candidates, like a strategy": World((-2.0, 1.0), (2.0, 1.0), _FAR, candidates=300),
    "well separated, 300 candidates, like no strategy": World((-1.0, 0.8), (2.0, 1.0), _FAR, candidates=300),
    "base rate .1, 200 positives, 800 candidates": World((-0.5, 1.2), base_rate=0.1, positives=200, candidates=800),
    "tails of 5 degrees of freedom, base rate .5": World((-0.6, 0.7), tails=5, base_rate=0.5, candidates=1_000),
}


def covered(world: str, seed: int) -> np.ndarray:
    """Return whether the limits hold the truth at each place, their widths, and the remainder's share."""
    rng, own = np.random.default_rng(seed), WORLDS[world]
    data = own.draw(rng)
    fit = fit_mixture(data, MixtureOptions(own.base_rate, replicates=60), rng)
    _, band = fit_to_candidates(data, fit, CALIBRATORS.get(CALIBRATOR), REPLICATES, rng)
    at = own.places()
    truth, (low, high) = own.truth(at), band.limits(at)
    holds = (low <= truth) & (truth <= high)
    return np.array([holds, high - low, np.full(len(at), fit.remainder)], dtype=float)


def main(repetitions: int, processes: int) -> None:
    """Print the table."""
    print("| mistakes |", " | ".join(f"{level:.0%}" for level in LEVELS), "| all | mean width | remainder |")
    print("|---" * (4 + len(LEVELS)) + "|")
    with get_context("spawn").Pool(processes) as pool:
        for world in WORLDS:
            found = np.array(pool.starmap(covered, [(world, seed) for seed in range(repetitions)], 5))
            holds, width, rest = found.mean(axis=0)
            cells = [f"{one:.3f}" for one in (*holds, holds.mean(), width.mean(), rest.mean())]
            print(f"| {world} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
