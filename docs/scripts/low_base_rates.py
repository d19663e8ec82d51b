"""Make the table of docs/explanation/low-base-rates.md: calibrators on simulated scores of known probability.

    python docs/scripts/low_base_rates.py 500 60 > table.md        # repetitions, and those at a base rate of 1e-4

Scores are normal: N(0, 1) for negatives and N(2, 1) for positives. There are as many negatives as `calibration_eta
auto` draws. The true probability of a score f at the base rate alpha is sigmoid(logit(alpha) + 2 f - 2). The positives
have one of RELATIONS relations at random, and their corruptions the same. Relations do not matter for the truth: a
calibrator with a map for each relation must find that out.
"""

import sys
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from kgcore.arrays import Floats, Probabilities
from kgcore.calibration.sample import synthetic_sample
from kgcore.calibration.support import Support
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import CALIBRATORS

APART = 2.0
RELATIONS = 5
BASE_RATES, POSITIVES = (0.5, 0.1, 1e-2, 1e-3, 1e-4), (100, 500, 3000)
GRID = np.linspace(-8, APART + 8, 20_001)
STEP = GRID[1] - GRID[0]


@dataclass(frozen=True)
class Population:
    """All triples at a base rate: the share of positives (m,) and of negatives (m,) at each score of GRID.

    apart  the mean score of the positives
    """

    base_rate: float
    positives: Floats
    negatives: Floats
    apart: float = APART

    @property
    def truth(self) -> Probabilities:
        """The true probability (m,) at each score of GRID."""
        return true_probability(GRID, self.base_rate, self.apart)

    @property
    def top(self) -> float:
        """The score that a hundredth of all triples exceeds."""
        return float(np.interp(0.99, np.cumsum(self.positives + self.negatives), GRID))

    def log_loss(self, q: Probabilities) -> float:
        """Return the log loss of probabilities (m,) at the scores of GRID."""
        q = q.clip(1e-300, 1 - 1e-16)  # far from all scores, a probability rounds to 0 or 1
        return float(-(self.positives * np.log(q) + self.negatives * np.log1p(-q)).sum())


def population(base_rate: float, apart: float = APART) -> Population:
    """Return the population of a base rate."""
    positives, negatives = base_rate * norm.pdf(GRID, apart) * STEP, (1 - base_rate) * norm.pdf(GRID) * STEP
    return Population(base_rate, positives, negatives, apart)


def true_probability(scores: Floats, base_rate: float, apart: float = APART) -> Probabilities:
    """Return the true probability (n,) of scores (n,)."""
    q: Probabilities = expit(logit(base_rate) + apart * np.asarray(scores) - apart**2 / 2)
    return q


def measured(everyone: Population, positives: int, name: str, seed: int) -> tuple[float, float, bool]:
    """Fit a calibrator to a drawn sample.

    Return the mean probability of the sample divided by the base rate, the log loss of the population divided by that
    of the true probabilities, and whether the probability at the top hundredth of the scores is right within a factor
    1.25, or has an interval that contains the true one.
    """
    rng, alpha = np.random.default_rng(seed), everyone.base_rate
    eta = CorruptConfig(for_base_rate=alpha).eta(positives)
    scores = rng.normal(APART, 1, positives), rng.normal(0, 1, positives * eta)
    own = rng.integers(0, RELATIONS, positives)
    sample = synthetic_sample(*scores, alpha, predicates=(own, np.repeat(own, eta)))
    fitted = CALIBRATORS.get(name)().fit_sample(sample)
    mean = np.average(fitted.calibrate_of(sample.scores, sample.predicates), weights=sample.weights) / alpha
    maps = [fitted.calibrate_of(GRID, np.full(len(GRID), relation)) for relation in range(RELATIONS)]
    loss = np.mean([everyone.log_loss(q) for q in maps]) / everyone.log_loss(everyone.truth)
    top, first = np.array([everyone.top]), np.array([0])
    [low], [high] = Support.fit(sample, fitted.by_predicate).limits(top, first)
    [q], [truth] = fitted.calibrate_of(top, first), true_probability(top, alpha)
    return float(mean), float(loss), bool(low <= truth <= high or 0.8 <= q / truth <= 1.25)


def main(repetitions: int, rare: int) -> None:
    """Print the table."""
    print(
        "| calibrator | base rate | positives | samples | mean / base rate | log loss / that of the truth | top right |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in CalibrateConfig().score_calibrators:
        for alpha in BASE_RATES:
            everyone = population(alpha)
            for positives in POSITIVES:
                seeds = range(rare if alpha <= 1e-4 else repetitions)
                found = np.array([measured(everyone, positives, name, seed) for seed in seeds])
                mean, loss, right = found.T
                cells = [f"{mean.min():.3f} to {mean.max():.3f}", f"{loss.mean():.3f}", f"{right.mean():.2f}"]
                print(f"| {name} | {alpha:g} | {positives:,} | {len(seeds)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
