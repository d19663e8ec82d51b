"""Make the tables of docs/explanation/low-base-rates.md on all corruptions of each positive, on scores of known truth.

    python docs/scripts/all_corruptions.py 20 > table.md        # repetitions
    python docs/scripts/all_corruptions.py 20 rare > table.md   # more corruptions than fit in memory

There are POSITIVES positives, with scores N(2, 1). Each has CORRUPTIONS possible corruptions with scores g ~ N(-t, 1)
and t = TILT. A strategy draws a corruption with a probability proportional to exp(t g): it prefers hard ones. So the
scores of draws are N(0, 1), and the truth is that of low_base_rates.py.

The second table is for base rates RARE, at which more than five million corruptions are needed. RARE_POSITIVES
positives have scores N(RARE_APART, 1), so that some of them are likely true even there, and draws N(0, 1). Five million
draws are compared with the search of the product, `searched_table`, among as many as the base rate needs.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from low_base_rates import APART, GRID, population, true_probability
from scipy.special import logit

from kgcore.arrays import Floats, Scores, Triples
from kgcore.calibrate.fit import calibration_bases
from kgcore.calibrate.sample import CalibrationSample, synthetic_sample
from kgcore.calibrate.support import Support
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.embed.corruptions.held_out import DRAWS, Looked
from kgcore.registries import CALIBRATORS
from kgcore.scores.search import searched_table
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable

POSITIVES, CORRUPTIONS, TILT = 200, 500, 0.5
BASE_RATES = (1e-2, 1e-3, 1e-4)
NAMES = ("smoothed_isotonic", "beta")
RARE, RARE_POSITIVES, RARE_APART = (1e-5, 1e-6), 1_000, 4.0


def sample_of(alpha: float, every: bool, seed: int) -> CalibrationSample:
    """Return the sample of all corruptions, or of as many draws as the base rate alpha needs."""
    rng = np.random.default_rng(seed)
    positives = rng.normal(APART, 1, POSITIVES)
    scores = rng.normal(-TILT, 1, (POSITIVES, CORRUPTIONS))
    chances = np.exp(TILT * scores)
    chances /= chances.sum(axis=1, keepdims=True)
    if every:
        return synthetic_sample(positives, scores.ravel(), alpha, counts=CORRUPTIONS * chances.ravel())
    eta = CorruptConfig(for_base_rate=alpha).eta(POSITIVES)
    drawn = [rng.choice(own, eta, p=p) for own, p in zip(scores, chances, strict=True)]
    return synthetic_sample(positives, np.concatenate(drawn), alpha)


def measured(alpha: float, every: bool, name: str, seed: int) -> tuple[float, ...]:
    """Fit a calibrator to a sample, and measure it at the top hundredth of the scores of all triples.

    Return the mean probability of the sample divided by the base rate, the log loss divided by that of the truth, the
    log of the probability at the top divided by the truth, whether its interval contains the truth, the rows, and the
    seconds.
    """
    everyone, sample, start = population(alpha), sample_of(alpha, every, seed), time.perf_counter()
    fitted = CALIBRATORS.get(name)().fit_sample(sample)
    q = fitted.calibrate(GRID)
    loss = everyone.log_loss(q) / everyone.log_loss(everyone.truth)
    mean = float(np.average(fitted.calibrate(sample.scores), weights=sample.weights)) / alpha
    top = np.array([everyone.top])
    [low], [high] = Support.fit(sample, False).limits(top, None)
    seconds = time.perf_counter() - start
    [own], [truth] = fitted.calibrate(top), true_probability(top, alpha)
    return mean, loss, float(np.log(own / truth)), float(low <= truth <= high), len(sample.scores), seconds


def main(repetitions: int) -> None:
    """Print the table."""
    print("| calibrator | base rate | corruptions | rows | mean / base rate | log loss / that of the truth | ", end="")
    print("log error at the top, mean and deviation | interval holds the truth | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in NAMES:
        for alpha in BASE_RATES:
            for every in (False, True):
                found = np.array([measured(alpha, every, name, seed) for seed in range(repetitions)])
                mean, loss, error, held, rows, seconds = found.T
                cells = [f"{rows.mean():,.0f}", f"{mean.mean():.3f} &plusmn; {mean.std():.3f}", f"{loss.mean():.3f}"]
                cells += [f"{error.mean():+.3f}, {error.std():.3f}", f"{held.mean():.2f}", f"{seconds.mean():.1f}"]
                print(f"| {name} | {alpha:g} | {'all' if every else 'drawn'} | {' | '.join(cells)} |", flush=True)


@dataclass(frozen=True)
class Stream:
    """Further draws, as `Further` makes them. Their subjects are the bits of their scores, for `Scorer`."""

    positives: Triples
    looks: int
    eta: int
    rng: np.random.Generator
    shares: Floats
    every: bool = False

    def draws(self) -> Iterator[Looked]:
        """Draw what is missing."""
        left = self.looks - self.eta * len(self.positives)
        for done in range(0, left, DRAWS):
            scores = self.rng.normal(0, 1, min(DRAWS, left - done))
            yield Looked(triples_of(scores), np.ones(len(scores)), np.zeros(1, dtype=np.int64))


def triples_of(scores: Scores) -> Triples:
    """Return triples (n, 3) whose subjects are the bits of the scores (n,)."""
    rest = np.zeros(len(scores), dtype=np.int64)
    return np.stack([scores.view(np.int64), rest, rest], axis=1)


class Scorer:
    """A model that reads the scores in the subjects."""

    def score(self, triples: Triples) -> Scores:
        """Return the scores (n,) of triples (n, 3)."""
        return np.ascontiguousarray(triples[:, 0]).view(np.float64)


def rare_sample(alpha: float, search: bool, seed: int, positives: int = RARE_POSITIVES) -> tuple[Any, ...]:
    """Return a sample of the draws that fit in memory, or of a search, and the number of corruptions looked at."""
    rng, config = np.random.default_rng(seed), CorruptConfig(for_base_rate=alpha)
    eta, looks = config.eta(positives), config.looks_at(positives)
    assert looks is not None, f"at {alpha:g}, the draws are enough"
    scores = np.r_[rng.normal(RARE_APART, 1, positives), rng.normal(0, 1, positives * eta)]
    labels = np.repeat([1.0, 0.0], (positives, positives * eta))
    origin = np.where(labels == 1, LABELLED, CORRUPTION)
    table = ScoreTable(triples_of(scores), labels, scores, np.repeat("valid", len(scores)), origin, "", "")
    if search:
        stream = Stream(table.triples[:positives], looks, eta, rng, np.ones(1))
        table = searched_table(table, stream, Scorer())  # type: ignore[arg-type]
    sample = calibration_bases(table, CalibrateConfig(base_rate=alpha))["synthetic"].sample
    return sample, int(table.search_figures().get("looked_at", positives * eta))


def rare(alpha: float, search: bool, seed: int) -> dict[str, tuple[float, ...]]:
    """Fit the calibrators, and measure them at the score where the truth is 1/2.

    Return by calibrator: the mean probability of the sample divided by the base rate, the log loss divided by that of
    the truth, the log-odds of the probability there, whether its interval contains 1/2, the log-odds of the lower end,
    the corruptions that were looked at, and the rows.
    """
    everyone, (sample, looked) = population(alpha, RARE_APART), rare_sample(alpha, search, seed)
    half = np.array([RARE_APART / 2 - logit(alpha) / RARE_APART])
    [low], [high] = Support.fit(sample, False).limits(half, None)
    found = {}
    for name in NAMES:
        fitted = CALIBRATORS.get(name)().fit_sample(sample)
        mean = float(np.average(fitted.calibrate(sample.scores), weights=sample.weights)) / alpha
        loss = everyone.log_loss(fitted.calibrate(GRID)) / everyone.log_loss(everyone.truth)
        [own] = logit(fitted.calibrate(half))
        found[name] = (mean, loss, own, float(low <= 0.5 <= high), logit(low), looked, len(sample.scores))
    return found


def rare_main(repetitions: int) -> None:
    """Print the second table."""
    print("| calibrator | base rate | looked at | rows | mean / base rate | log loss / that of the truth | ", end="")
    print("log-odds where the truth is 0, mean and deviation | interval holds the truth | its lower end, log-odds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for alpha in RARE:
        for search in (False, True):
            runs = [rare(alpha, search, seed) for seed in range(repetitions)]
            for name in NAMES:
                mean, loss, odds, held, low, looked, rows = np.array([run[name] for run in runs]).T
                cells = [f"{looked.mean():,.0f}", f"{rows.mean():,.0f}", f"{mean.mean():.3f} &plusmn; {mean.std():.3f}"]
                cells += [f"{loss.mean():.3f}", f"{odds.mean():+.2f}, {odds.std():.2f}", f"{held.mean():.2f}"]
                print(f"| {name} | {alpha:g} | {' | '.join(cells)} | {low.mean():+.2f} |", flush=True)


if __name__ == "__main__":
    (rare_main if "rare" in sys.argv else main)(int(sys.argv[1]))
