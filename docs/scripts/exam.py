"""Make the tables of docs/explanation/exam.md: how often challengers pass the gate of `kgcal promote`, on known truth.

    python docs/scripts/exam.py 500 3        # repetitions, processes

The log-odds of a triple are those of two parts: what both models see, and what one of them sees.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context

import numpy as np
from scipy.special import expit, logit

from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, ground_truth_sample, shift
from kgcore.config import GateConfig, WatchConfig
from kgcore.registries import CALIBRATORS
from kgcore.wings.monitoring.drift import REFIT, SHIFT, DriftReference, find_evidence, report
from kgcore.wings.monitoring.gate import gate, level_of
from kgcore.wings.monitoring.paired import PairedRows
from kgcore.wings.monitoring.two_samples import NewTriples

CONFIG = GateConfig()
GRID = np.linspace(-8, 8, 4001)


def alone(labels: np.ndarray) -> PairedRows:
    """Return rows of weight 1, each a cluster of its own."""
    return PairedRows(labels, np.ones(len(labels)), np.arange(len(labels)), False)


@dataclass(frozen=True)
class Two:
    """Two calibrated models that are equally good, and the triples that both are judged on.

    first, second  (n,) their probabilities
    """

    first: np.ndarray
    second: np.ndarray
    rows: PairedRows


def two_models(rng: np.random.Generator, n: int, corruptions: int = 0) -> Two:
    """Draw two models that see the truth with independent noise, and give the exact probability of what they see.

    n            number of triples; of positives if there are corruptions
    corruptions  number of corruptions of each positive, which are alike: they share a part of their scores
    """
    count = n * (1 + corruptions) if corruptions else n
    clusters = np.arange(count) % n
    y = np.r_[np.ones(n), np.zeros(count - n)] if corruptions else (rng.random(n) < 0.5).astype(float)
    common = 0.7 * rng.normal(size=n)[clusters] if corruptions else 0.0
    truth = rng.normal(2 * y - 1, 1.0 if not corruptions else np.sqrt(1 - 0.49)) + common
    noise = rng.normal(size=(2, count)) * 0.7
    scores = truth + noise  # variance 1.49 given the label: log-odds 2 * score * 2 / (2 * 1.49)
    first, second = expit(2 * scores / 1.49)
    weights = base_rate_weights(y, 0.5) if corruptions else np.ones(count)
    return Two(first, second, PairedRows(y, weights, clusters, bool(corruptions)))


def equal(rng: np.random.Generator, n: int, corruptions: int = 0) -> tuple[bool, bool, bool]:
    """Return whether an equally good challenger is found better, not worse calibrated, and passes."""
    two = two_models(rng, n, corruptions)
    found = gate(two.first, two.second, two.rows, CONFIG)
    return found.better, found.calibrated, found.passed


def better(rng: np.random.Generator, n: int, corruptions: int = 0) -> tuple[bool, bool, bool]:
    """The same for a challenger that sees more than the champion, which sees only a noisy copy."""
    two = two_models(rng, n, corruptions)
    score = logit(two.first.clip(1e-9, 1 - 1e-9)) * 1.49 / 2 + rng.normal(size=len(two.rows)) * 0.9
    found = gate(two.first, expit(2 * score / (1.49 + 0.81)), two.rows, CONFIG)
    return found.better, found.calibrated, found.passed


def worse(rng: np.random.Generator, n: int, times: float = 2.0, kind: str = "shifted") -> tuple[bool, bool, bool]:
    """The same for a challenger whose calibration error is worse by `times` the margin, although it sees more."""
    two = two_models(rng, n)
    score = logit(two.first.clip(1e-9, 1 - 1e-9)) * 1.49 / 2 + rng.normal(size=n) * 2.0
    champion = expit(2 * score / (1.49 + 4.0))
    by = times * CONFIG.margin
    odds = logit(two.first.clip(1e-9, 1 - 1e-9))
    moved = odds * _slope(by) if kind == "overconfident" else odds + _offset(by)
    found = gate(expit(moved), champion, two.rows, CONFIG)
    return found.better, found.calibrated, found.passed


def _error(change: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the root mean square calibration error of changed log-odds."""
    spread, odds = np.sqrt(1.49) * 2 / 1.49, GRID * 2
    density = sum(np.exp(-0.5 * ((odds - m * 2 / 1.49) / spread) ** 2) for m in (1, -1))
    gap = expit(change(odds)) - expit(odds)
    return float(np.sqrt((density * gap**2).sum() / density.sum()))


def _solve(error: float, low: float, high: float, make: Callable[[float], Callable]) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _error(make(middle)) < error else (low, middle)
    return low


@cache
def _offset(error: float) -> float:
    return _solve(error, 0, 10, lambda a: lambda odds: odds + a)


@cache
def _slope(error: float) -> float:
    return _solve(error, 1, 50, lambda b: lambda odds: odds * b)


def chosen(rng: np.random.Generator, n: int, count: int, counted: bool) -> tuple[bool]:
    """Return whether the best of several equally good calibrators by Brier score is found better than the champion."""
    y = (rng.random(n) < 0.5).astype(float)
    truth = rng.normal(2 * y - 1)
    models = [expit(2 * (truth + 0.7 * rng.normal(size=n)) / 1.49) for _ in range(count + 1)]
    best = min(models[1:], key=lambda q: float(np.mean((q - y) ** 2)))
    return (gate(best, models[0], alone(y), CONFIG, level_of(1, count if counted else 1, 0.05)).better,)


def many_days(rng: np.random.Generator, n: int, days: int, together: int, spend: bool) -> tuple[bool]:
    """Return whether any of the equally good challengers of many days is found better than the champion."""
    y = (rng.random(n) < 0.5).astype(float)
    truth = rng.normal(2 * y - 1)
    champion, found = expit(2 * (truth + 0.7 * rng.normal(size=n)) / 1.49), False
    for day in range(1, days + 1):
        level = level_of(day, together, 0.05) if spend else None
        for _ in range(together):
            q = expit(2 * (truth + 0.7 * rng.normal(size=n)) / 1.49)
            found = found or gate(q, champion, alone(y), CONFIG, level).better
    return (found,)


@dataclass(frozen=True)
class World:
    """How the log-odds of a triple have changed since calibration: slope * log-odds + shift."""

    shift: float = 0.0
    slope: float = 1.0


def draw(rng: np.random.Generator, n: int, world: World) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels and true log-odds of n triples."""
    scores = rng.normal(2 * (rng.random(n) < 0.5) - 1.0)
    odds = world.slope * 2 * scores + world.shift
    return scores, (rng.random(n) < expit(odds)).astype(float), odds


def cycle(rng: np.random.Generator, world: World, labels: int, calibrator: str = "smoothed_isotonic") -> tuple:
    """One cycle of watch, recalibrate and promote.

    Return whether it was answered, whether the champion changed, and whether the champion after the cycle has at most
    half of the excess log loss, over the truth, that the first champion has in the new world.
    """
    fit = CALIBRATORS.get(calibrator)
    scores, y, _ = draw(rng, 1000, World())
    sample = ground_truth_sample(scores, y)
    champion = fit().fit_sample(sample)
    new, found, _ = draw(rng, labels, world)
    origin = DriftReference(sample, sample.base_rate, False, scores, np.ones(1000))
    answer = report(find_evidence(champion.calibrate(new), NewTriples(new, found), origin), WatchConfig()).answer
    exam = rng.random(labels) < 0.5
    challengers: list[Callable[[np.ndarray], np.ndarray]] = []
    if answer == SHIFT:
        half = find_evidence(champion.calibrate(new[~exam]), NewTriples(new[~exam], found[~exam]), origin)
        rate = half.moved_base_rate.value
        challengers = [lambda s: shift(champion.calibrate(s), sample.base_rate, rate)]
    elif answer == REFIT:
        both = CalibrationSample(np.r_[scores, new[~exam]], np.r_[y, found[~exam]], np.ones(1000 + int((~exam).sum())))
        samples = [both, ground_truth_sample(new[~exam], found[~exam])]
        challengers = [fit().fit_sample(one).calibrate for one in samples]
    rows, level = alone(found[exam]), level_of(1, max(len(challengers), 1), 0.05)
    verdicts = [gate(c(new[exam]), champion.calibrate(new[exam]), rows, CONFIG, level) for c in challengers]
    passed = [(v.brier.value, c) for v, c in zip(verdicts, challengers, strict=True) if v.passed]
    last = max(passed, key=lambda one: one[0])[1] if passed else champion.calibrate
    asked, _, odds = draw(rng, 20_000, world)
    before, after = (_excess(q(asked), odds) for q in (champion.calibrate, last))
    return bool(answer), bool(passed), after <= before / 2


def _excess(q: np.ndarray, odds: np.ndarray) -> float:
    """Return the mean divergence of probabilities from the truth, in nats."""
    p, q = expit(odds), q.clip(1e-7, 1 - 1e-7)
    return float(np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))))


def _run(case: tuple[Callable[..., Sequence[bool]], int]) -> Sequence[bool]:
    function, seed = case
    return function(np.random.default_rng(seed))


def shares(function: Callable[..., Sequence[bool]], repetitions: int, processes: int) -> list[float]:
    """Return the share of repetitions in which each result is true."""
    cases = [(function, seed) for seed in range(repetitions)]
    if processes == 1:
        return [float(share) for share in np.mean([_run(case) for case in cases], axis=0)]
    with get_context("fork").Pool(processes) as pool:
        return [float(share) for share in np.mean(pool.map(_run, cases, chunksize=10), axis=0)]


def main(repetitions: int, processes: int) -> None:
    """Print the tables."""

    def row(name: str, function: Callable[..., Sequence[bool]]) -> None:
        found = shares(function, repetitions, processes)
        print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in found) + " |", flush=True)

    sizes = (300, 1000, 5000, 20_000)
    print("| challenger | better | calibrated | passes |\n|---|---|---|---|")
    for name, function in (("equal", equal), ("better", better)):
        for n in sizes:
            row(f"{name}, {n:,} triples", partial(function, n=n))
        row(f"{name}, 300 positives, 20 corruptions each", partial(function, n=300, corruptions=20))
    for kind in ("shifted", "overconfident"):
        for times in (1, 2):
            for n in sizes:
                name = f"{kind}, error {times * CONFIG.margin:g}, {n:,} triples"
                row(name, partial(worse, n=n, times=times, kind=kind))
    print("\n| the best of equal calibrators, 2,000 triples | is found better |\n|---|---|")
    for count in (1, 6, 20):
        for counted in (False, True):
            name = f"of {count}, {'all are counted' if counted else 'one is counted'}"
            row(name, partial(chosen, n=2000, count=count, counted=counted))
    print("\n| equal challengers, 1,000 triples | any is found better |\n|---|---|")
    for days, together in ((20, 1), (20, 5)):
        for spend in (True, False):
            name = f"{days} days, {together} a day, {'levels as above' if spend else 'each at .025'}"
            row(name, partial(many_days, n=1000, days=days, together=together, spend=spend))
    print("\n| world, field labels | drift found | champion changed | excess at most half |\n|---|---|---|---|")
    worlds = {"no drift": World(), "base rate": World(-2), "map: flat": World(0, 0.2), "map: reversed": World(0, -1)}
    for name, world in worlds.items():
        for labels in (400, 1000):
            row(f"{name}, {labels:,}", partial(cycle, world=world, labels=labels))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
