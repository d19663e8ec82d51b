"""Make the tables of low base rates in docs/explanation/exam.md: how often challengers pass the gate, on known truth.

    python docs/scripts/exam_base_rates.py 500 3        # repetitions, processes

The scores of positives are normal around 2, those of negatives around 0, and triples are weighted to the base rate.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
from exam import CONFIG, shares, two_models
from scipy.special import expit, logit

from kgcore.calibrate.sample import base_rate_weights, shift
from kgcore.wings.monitoring.gate import gate
from kgcore.wings.monitoring.paired import PairedRows


def base_rates(rng: np.random.Generator, n: int) -> tuple[bool, bool]:
    """Calibrators for .5 and .1, field base rate .1, half-and-half test: does the right one win, does the wrong one?"""
    two = two_models(rng, n)
    right, rows = shift(two.first, 0.5, 0.1), two.rows
    weighted = PairedRows(rows.labels, base_rate_weights(rows.labels, 0.1), rows.clusters, True)
    return gate(right, two.first, weighted, CONFIG).passed, gate(two.first, right, weighted, CONFIG).passed


def low_base_rate(rng: np.random.Generator, n: int, rate: float, kind: str, corruptions: int = 0) -> tuple[bool, ...]:
    """Return whether a challenger is found better, not worse calibrated, and passes, on triples weighted to a rate.

    n     number of triples, half of them positives; of positives if there are corruptions
    kind  shifted or overconfident: the champion is the truth, and the challenger is worse, by .3 in log-odds or by a
          slope of 1.3; equal: two models that see the truth with independent noise; better: the champion sees the truth
          with noise, and the challenger sees the truth
    """
    count = n * (1 + corruptions) if corruptions else n
    y = (np.arange(count) < (n if corruptions else n // 2)).astype(float)
    clusters = np.arange(count) % n
    common = rng.normal(size=n)[clusters] * 0.7 if corruptions else 0.0
    score = common + rng.normal(size=count) * (np.sqrt(0.51) if corruptions else 1.0) + 2 * y
    rows = PairedRows(y, base_rate_weights(y, rate), clusters, True)
    truth, noisy = 2 * score - 2, (2 * (score + 0.5 * rng.normal(size=(2, count))) - 2) / 1.25
    kinds = {"shifted": (truth + 0.3, truth), "overconfident": (1.3 * truth, truth)}
    kinds |= {"equal": (noisy[0], noisy[1]), "better": (truth, noisy[1])}
    challenger, champion = (expit(odds + logit(rate)) for odds in kinds[kind])
    found = gate(challenger, champion, rows, CONFIG)
    return found.better, found.calibrated, found.passed


def miscalibrated(rng: np.random.Generator, n: int, rate: float, kind: str) -> tuple[bool, ...]:
    """The same for a challenger whose calibration error is worse by twice the margin, against a calibrated champion.

    The challenger is the truth moved up (shifted) or with a higher slope (overconfident).
    """
    y = (np.arange(n) < n // 2).astype(float)
    score = rng.normal(2 * y)
    by = 2 * CONFIG.margin * 2 * np.sqrt(rate * (1 - rate))
    challenger = expit(_moved(kind, rate, by)(2 * score - 2) + logit(rate))
    champion = expit((2 * (score + 0.5 * rng.normal(size=n)) - 2) / 1.25 + logit(rate))
    found = gate(challenger, champion, PairedRows(y, base_rate_weights(y, rate), np.arange(n), True), CONFIG)
    return found.better, found.calibrated, found.passed


@cache
def _moved(kind: str, rate: float, error: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the change of the log-odds, without those of the base rate, that has this calibration error."""
    grid = np.linspace(-6, 8, 8001)
    density = rate * np.exp(-0.5 * (grid - 2) ** 2) + (1 - rate) * np.exp(-0.5 * grid**2)
    low, high, odds = 0.0, 20.0, 2 * grid - 2

    def change(by: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda odds: odds + by if kind == "shifted" else odds * (1 + by)

    for _ in range(50):
        middle = (low + high) / 2
        gap = expit(change(middle)(odds) + logit(rate)) - expit(odds + logit(rate))
        found = np.sqrt((density * gap**2).sum() / density.sum())
        low, high = (middle, high) if found < error else (low, middle)
    return change(low)


def main(repetitions: int, processes: int) -> None:
    """Print the tables. Each cell of the later ones has the share that is found better, and the share that passes."""

    def table(first: str, lines: Mapping[str, Callable[..., tuple[bool, ...]]], base_rates: tuple[float, ...]) -> None:
        print(f"| {first} | " + " | ".join(f"{rate:g}" for rate in base_rates) + " |\n|---", end="")
        print("|---" * len(base_rates) + "|")
        for name, function in lines.items():
            found = [shares(partial(function, rate=rate), repetitions, processes) for rate in base_rates]
            print(f"| {name} | " + " | ".join(f"{one[0]:.3f}, {one[2]:.3f}" for one in found) + " |", flush=True)

    print("| field base rate .1 | right passes | wrong passes |\n|---|---|---|")
    for n in (300, 1000, 5000):
        right, wrong = shares(partial(base_rates, n=n), repetitions, processes)
        print(f"| {n:,} test triples | {right:.3f} | {wrong:.3f} |", flush=True)
    print()
    lines = {}
    for kind in ("shifted", "overconfident", "equal", "better"):
        for n in (200, 1000, 5000):
            lines[f"{kind}, {n:,} triples"] = partial(low_base_rate, n=n, kind=kind)
        for n in (200, 1000, 5000):
            corrupted = partial(low_base_rate, n=n, kind=kind, corruptions=20)
            lines[f"{kind}, {n:,} positives, 20 corruptions each"] = corrupted
    table("challenger", lines, (0.5, 0.1, 0.01, 0.001))
    print()
    sizes, kinds = (200, 1000, 5000), ("shifted", "overconfident")
    wrong = {f"{kind}, {n:,} triples": partial(miscalibrated, n=n, kind=kind) for kind in kinds for n in sizes}
    table("error of twice the margin", wrong, (0.1, 0.01, 0.001))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
