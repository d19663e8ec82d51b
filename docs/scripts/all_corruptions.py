"""Make the table of docs/explanation/low-base-rates.md on all corruptions of each positive, on scores of known truth.

    python docs/scripts/all_corruptions.py 20 > table.md        # repetitions

There are POSITIVES positives, with scores N(2, 1). Each has CORRUPTIONS possible corruptions with scores g ~ N(-t, 1)
and t = TILT. A strategy draws a corruption with a probability proportional to exp(t g): it prefers hard ones. So the
scores of draws are N(0, 1), and the truth is that of low_base_rates.py.
"""

import sys
import time

import numpy as np
from low_base_rates import APART, GRID, population, true_probability

from kgcore.calibration.sample import CalibrationSample, synthetic_sample
from kgcore.calibration.support import Support
from kgcore.config import CorruptConfig
from kgcore.registries import CALIBRATORS

POSITIVES, CORRUPTIONS, TILT = 200, 500, 0.5
BASE_RATES = (1e-2, 1e-3, 1e-4)
NAMES = ("smoothed_isotonic", "beta")


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


if __name__ == "__main__":
    main(int(sys.argv[1]))
