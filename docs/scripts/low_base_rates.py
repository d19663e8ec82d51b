"""Make the table of docs/explanation/low-base-rates.md: calibrators on simulated scores of known probability.

    python docs/scripts/low_base_rates.py 100 > table.md        # repetitions

Scores are normal: N(0, 1) for negatives and N(2, 1) for positives. There are as many negatives as `calibration_eta
auto` draws. The true probability of a score f at the base rate alpha is sigmoid(logit(alpha) + 2 f - 2).
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
BASE_RATES, POSITIVES = (0.5, 0.1, 1e-2, 1e-3, 1e-4), (100, 500, 3000)
GRID = np.linspace(-8, APART + 8, 20_001)
STEP = GRID[1] - GRID[0]


@dataclass(frozen=True)
class Population:
    """All triples at a base rate: the share of positives (m,) and of negatives (m,) at each score of GRID."""

    base_rate: float
    positives: Floats
    negatives: Floats

    @property
    def truth(self) -> Probabilities:
        """The true probability (m,) at each score of GRID."""
        return true_probability(GRID, self.base_rate)

    @property
    def top(self) -> float:
        """The score that a hundredth of all triples exceeds."""
        return float(np.interp(0.99, np.cumsum(self.positives + self.negatives), GRID))

    def log_loss(self, q: Probabilities) -> float:
        """Return the log loss of probabilities (m,) at the scores of GRID."""
        q = q.clip(1e-300, 1 - 1e-16)  # far from all scores, a probability rounds to 0 or 1
        return float(-(self.positives * np.log(q) + self.negatives * np.log1p(-q)).sum())


def population(base_rate: float) -> Population:
    """Return the population of a base rate."""
    return Population(base_rate, base_rate * norm.pdf(GRID, APART) * STEP, (1 - base_rate) * norm.pdf(GRID) * STEP)


def true_probability(scores: Floats, base_rate: float) -> Probabilities:
    """Return the true probability (n,) of scores (n,)."""
    q: Probabilities = expit(logit(base_rate) + APART * np.asarray(scores) - APART**2 / 2)
    return q


def measured(everyone: Population, positives: int, name: str, seed: int) -> tuple[float, float, bool]:
    """Fit a calibrator to a drawn sample.

    Return the mean probability of the sample divided by the base rate, the log loss of the population divided by that
    of the true probabilities, and whether the probability at the top hundredth of the scores is right within a factor
    1.25, or has an interval that contains the true one.
    """
    rng, alpha = np.random.default_rng(seed), everyone.base_rate
    negatives = positives * CorruptConfig(for_base_rate=alpha).eta(positives)
    sample = synthetic_sample(rng.normal(APART, 1, positives), rng.normal(0, 1, negatives), alpha)
    fitted = CALIBRATORS.get(name)().fit_sample(sample)
    mean = np.average(fitted.calibrate(sample.scores), weights=sample.weights) / alpha
    loss = everyone.log_loss(fitted.calibrate(GRID)) / everyone.log_loss(everyone.truth)
    top = np.array([everyone.top])
    [low], [high] = Support.fit(sample, by_predicate=False).limits(top, None)
    [q], [truth] = fitted.calibrate(top), true_probability(top, alpha)
    return float(mean), loss, bool(low <= truth <= high or 0.8 <= q / truth <= 1.25)


def main(repetitions: int) -> None:
    """Print the table."""
    print("| calibrator | base rate | positives | mean / base rate | log loss / that of the truth | top right |")
    print("|---|---|---|---|---|---|")
    for name in CalibrateConfig().calibrators:
        for alpha in BASE_RATES:
            everyone = population(alpha)
            for positives in POSITIVES:
                found = np.array([measured(everyone, positives, name, seed) for seed in range(repetitions)])
                mean, loss, right = found.T
                cells = [f"{mean.min():.3f} to {mean.max():.3f}", f"{loss.mean():.3f}", f"{right.mean():.2f}"]
                print(f"| {name} | {alpha:g} | {positives:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
