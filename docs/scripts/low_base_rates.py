"""Make the table of docs/explanation/low-base-rates.md: calibrators on simulated scores of known probability.

    python docs/scripts/low_base_rates.py 500 2 found.csv > table.md        # samples, processes, file of results

All calibrators are fitted to the same samples. A run that was interrupted continues from its file of results.

Scores are normal: N(0, 1) for negatives and N(2, 1) for positives. There are as many negatives as `calibration_eta
auto` draws. The true probability of a score f at the base rate alpha is sigmoid(logit(alpha) + 2 f - 2). The positives
have one of RELATIONS relations at random, and their corruptions the same. Relations do not matter for the truth: a
calibrator with a map for each relation must find that out.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import norm

from kgcore.arrays import Floats, Probabilities
from kgcore.calibrate.sample import synthetic_sample
from kgcore.calibrate.support import MOST_POINTS_OF_A_RELATION, Band
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import CALIBRATORS

APART = 2.0
RELATIONS = 5
BASE_RATES, POSITIVES = (0.5, 0.1, 1e-2, 1e-3, 1e-4), (100, 500, 3000)
GRID = np.linspace(-8, APART + 8, 20_001)
STEP = GRID[1] - GRID[0]
COLUMNS = ("calibrator", "base_rate", "positives", "seed", "mean", "loss", "top", "covered")


@dataclass(frozen=True)
class Found:
    """How good a calibrator is that was fitted to one sample.

    mean     mean probability of the sample, divided by the base rate
    loss     log loss of the population, divided by that of the true probabilities
    top      probability at the top hundredth of the scores, divided by the true one
    covered  whether the interval of this probability contains the true one
    """

    mean: float
    loss: float
    top: float
    covered: bool

    @property
    def right(self) -> bool:
        """Whether the probability at the top is right within a factor 1.25, or has an interval with the truth in it."""
        return self.covered or 0.8 <= self.top <= 1.25


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


def measured(everyone: Population, positives: int, names: Sequence[str], seed: int) -> list[Found]:
    """Draw one sample, fit each of the named calibrators to it, and measure them."""
    rng, alpha = np.random.default_rng(seed), everyone.base_rate
    eta = CorruptConfig(for_base_rate=alpha).eta(positives)
    own = rng.integers(0, RELATIONS, positives)
    negatives = np.sort(rng.normal(0, 1, positives * eta))  # sorted, and their relations at random: it saves time later
    relations = own, rng.permutation(np.repeat(own, eta))
    sample = synthetic_sample(rng.normal(APART, 1, positives), negatives, alpha, predicates=relations)
    # the limits that `Support` has: over all rows, and over those of the first relation
    own_rows = sample.part(sample.predicates == 0) if (own == 0).any() else None
    bands = Band.fit(sample), None if own_rows is None else Band.fit(own_rows, most_points=MOST_POINTS_OF_A_RELATION)
    top, first = np.array([everyone.top]), np.array([0])
    [truth] = true_probability(top, alpha)
    found = []
    for name in names:
        fitted = CALIBRATORS.get(name)().fit_sample(sample)
        mean = np.average(fitted.calibrate_of(sample.scores, sample.predicates), weights=sample.weights) / alpha
        numbers = range(RELATIONS if fitted.by_predicate else 1)
        maps = [fitted.calibrate_of(GRID, np.full(len(GRID), number)) for number in numbers]
        loss = np.mean([everyone.log_loss(q) for q in maps]) / everyone.log_loss(everyone.truth)
        [q], band = fitted.calibrate_of(top, first), bands[fitted.by_predicate]
        [low], [high] = ([0.0], [1.0]) if band is None else band.limits(top)
        found.append(Found(float(mean), float(loss), float(q / truth), bool(low <= truth <= high)))
    return found


def task(case: tuple[float, int, int]) -> list[str]:
    """Return the lines of the file of results, one for each default calibrator, of a base rate, positives and seed."""
    alpha, positives, seed = case
    names = CalibrateConfig().score_calibrators
    found = measured(population(alpha), positives, names, seed)
    cell = f"{alpha:g},{positives},{seed}"
    return [
        f"{name},{cell},{one.mean:.9g},{one.loss:.9g},{one.top:.9g},{int(one.covered)}"
        for name, one in zip(names, found, strict=True)
    ]


def simulate(repetitions: int, processes: int, path: Path) -> pd.DataFrame:
    """Append the samples that the file of results lacks, and return all of them. It can be stopped and started again.

    path  the file of results, one line for each calibrator and sample; it is made if it does not exist
    """
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    done = pd.read_csv(path)
    there = set(done[["base_rate", "positives", "seed"]].itertuples(index=False, name=None))
    cases = [(a, n, seed) for seed in range(repetitions) for a in BASE_RATES for n in POSITIVES]
    with get_context("fork").Pool(processes) as pool, path.open("a", encoding="utf-8") as file:
        for lines in pool.imap_unordered(task, [case for case in cases if case not in there]):
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
    return pd.read_csv(path)


def main(repetitions: int, processes: int, path: Path) -> None:
    """Print the table."""
    found = simulate(repetitions, processes, path)
    heads = ("calibrator", "base rate", "positives", "samples", "mean / base rate", "log loss / that of the truth")
    print(f"| {' | '.join((*heads, 'within 1.25', 'interval holds the truth', 'top right'))} |")
    print("|---" * (len(heads) + 3) + "|")
    for name in CalibrateConfig().score_calibrators:
        for alpha, positives in product(BASE_RATES, POSITIVES):
            keys = (found.calibrator == name) & (found.base_rate == alpha) & (found.positives == positives)
            own = found[keys & (found.seed < repetitions)]
            near, covered = own.top.between(0.8, 1.25), own.covered == 1
            cells = [f"{own['mean'].min():.3f} to {own['mean'].max():.3f}"]
            cells += [f"{own.loss.mean():.3f} &plusmn; {own.loss.std() / np.sqrt(len(own)):.4f}"]
            cells += [f"{share.mean():.3f}" for share in (near, covered, near | covered)]
            print(f"| {name} | {alpha:g} | {positives:,} | {len(own)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
