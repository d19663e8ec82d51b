"""Make the tables of docs/explanation/drift.md: the level and the power of the tests of `kgcal watch`, on known truth.

    python docs/scripts/drift.py 500 3        # repetitions, processes

A world draws the scores of true and of false triples. A repetition draws a calibration sample and 1,000 test scores,
fits a calibrator, and checks new labels. If there is a shift, the best test (best_drift.py) sees the same samples.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from best_drift import signed_root
from scipy.special import expit, logit, ndtr

from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.config import WatchConfig
from kgcore.registries import CALIBRATORS
from kgcore.wings.monitoring.drift import REFIT, SHIFT, SHIFT_SHARE, DriftReference, corrected, find_evidence, report
from kgcore.wings.monitoring.two_samples import NewTriples, standard_error

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]
WORLDS: dict[str, Draw] = {
    "normal": lambda rng, y: rng.normal(2 * y - 1),
    "unequal spread": lambda rng, y: rng.normal(2.5 * y - 1, 1.4 - 0.8 * y),
    "heavy tails": lambda rng, y: 3 * y - 1.5 + rng.standard_t(2, len(y)),
    "well separated": lambda rng, y: rng.normal(4 * y - 2),
    "ties": lambda rng, y: np.round(rng.normal(2 * y - 1)),
}
ALPHA = 0.01
ESTIMATES = ((0.3, 0.0), (0.3, 0.01), (0.3, 0.025), (0.05, 0.0), (0.05, 0.015))  # base rates and standard errors


@dataclass(frozen=True)
class Case:
    """One row of a table.

    calibration  number of labelled triples, or of positives if eta is not 0
    eta          corruptions for each positive; 0: labelled negatives
    labels       numbers of new labels at each check
    shift        change of the log-odds
    slope        factor of the log-odds, only for `normal`
    error        standard error with which the base rate is estimated, only with eta; 0: it is stated
    """

    world: str
    calibrator: str
    calibration: int
    labels: tuple[int, ...]
    eta: int = 0
    base_rate: float = 0.5
    shift: float = 0.0
    slope: float = 1.0
    error: float = 0.0


def sample_of(case: Case, rate: float, rng: np.random.Generator) -> CalibrationSample:
    """Draw the calibration sample. Corruptions are weighted to the base rate `rate`."""
    draw = WORLDS[case.world]
    if case.eta:
        positives = draw(rng, np.ones(case.calibration))
        return synthetic_sample(positives, draw(rng, np.zeros(case.calibration * case.eta)), rate)
    labels = (rng.random(case.calibration) < case.base_rate).astype(float)
    return ground_truth_sample(draw(rng, labels), labels)


def new_labels(case: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the scores and labels of the last check."""
    labels = (rng.random(case.labels[-1]) < expit(logit(case.base_rate) + case.shift)).astype(float)
    scores = WORLDS[case.world](rng, labels)
    if case.slope != 1:
        labels = (rng.random(len(scores)) < expit(2 * case.slope * scores)).astype(float)
    return scores, labels


def repetition(task: tuple[Case, int]) -> tuple[bool, str, float]:
    """Return whether any check has a finding, the answer of the last check, and what the best test found there.

    The best test gives the signed root of its likelihood ratio, in the direction of the true shift; 0 without a shift.
    """
    case, seed = task
    rng = np.random.default_rng(seed)
    rate, limits = case.base_rate, None
    if case.error:
        rate = float(np.clip(rng.normal(case.base_rate, case.error), 0.01, 0.99))
        limits = (max(rate - 1.96 * case.error, 0.001), min(rate + 1.96 * case.error, 0.999))
    sample, (scores, labels) = sample_of(case, rate, rng), new_labels(case, rng)
    rate = rate if case.eta else sample.base_rate
    q = CALIBRATORS.get(case.calibrator)().fit_sample(sample).calibrate(scores)
    test = WORLDS[case.world](rng, (rng.random(1000) < case.base_rate).astype(float))
    origin, config = DriftReference(sample, rate, False, test, np.ones(1000), limits), WatchConfig(alpha=ALPHA)
    found, answer, root = False, "", 0.0
    for number, n in enumerate(case.labels, start=1):
        evidence = find_evidence(q[:n], NewTriples(scores[:n], labels[:n]), origin, number)
        said = report(evidence, config)
        found, answer = found or bool(said.findings), said.answer
    if case.shift:
        root = np.sign(case.shift) * signed_root(case.world, sample, (scores, labels), rate, standard_error(limits))
    return found, answer, float(root)


def growing(last: int) -> tuple[int, ...]:
    """Return the numbers of labels at 20 checks of a growing file."""
    return tuple(last * k // 20 for k in range(1, 21))


def level_cases() -> list[Case]:
    """Return the cases without drift."""
    sizes = [(400, (400,)), (1000, (1000,)), (1000, (5000,)), (400, growing(1000)), (1000, growing(5000))]
    cases = [Case("normal", name, m, n) for name in ("isotonic", "platt", "smoothed_isotonic") for m, n in sizes]
    cases += [Case(world, "isotonic", m, n) for world in list(WORLDS)[1:] for m, n in sizes[:4]]
    cases += [Case("normal", "isotonic", 500, growing(2000), 20, rate) for rate in (0.5, 0.1, 0.01)]
    cases += [Case("normal", "isotonic", 1000, (3000,), 8, rate, error=error) for rate, error in ESTIMATES]
    cases += [Case("normal", "isotonic", 1000, growing(3000), 8, 0.05, error=0.015)]
    return cases


def power_cases() -> list[Case]:
    """Return the cases with drift."""
    cases = [Case(w, "isotonic", m, (500,), shift=s) for w in WORLDS for m in (400, 1000) for s in (1.0, -1.0)]
    cases += [Case("normal", "isotonic", 500, (500,), 20, rate, 1.0) for rate in (0.5, 0.1, 0.01)]
    cases += [Case("normal", "isotonic", 1000, (n,), slope=s) for n in (500, 2000) for s in (0.5, 0.7, 1.5)]
    cases += [Case("normal", "isotonic", 1000, (500,), 8, rate, 1.0, error=error) for rate, error in ESTIMATES]
    return cases


def described(case: Case) -> str:
    """Return the first columns of a row."""
    calibration = f"{case.calibration:,}" + (f" positives, eta {case.eta}" if case.eta else "")
    labels = f"{case.labels[-1]:,}" + (" in 20 checks" if len(case.labels) > 1 else "")
    rate = f"{case.base_rate:g}" + (f", standard error {case.error:g}" if case.error else "")
    return f"| {case.world} | {case.calibrator} | {rate} | {calibration} | {labels} |"


def main(repetitions: int, processes: int) -> None:
    """Print both tables."""
    with get_context("spawn").Pool(processes) as pool:

        def results(case: Case) -> list[tuple[bool, str, float]]:
            return pool.map(repetition, [(case, seed) for seed in range(repetitions)], chunksize=10)

        print("| scores | calibrator | base rate | calibration | new labels | false findings |")
        print("|---|---|---|---|---|---|")
        for case in level_cases():
            print(described(case), f"{np.mean([found for found, *_ in results(case)]):.3f} |", flush=True)
        print(
            "\n| scores | calibrator | base rate | calibration | new labels | drift | found | shift | refit |", end=""
        )
        print(" best | best, one look |\n|---|---|---|---|---|---|---|---|---|---|---|")
        for case in power_cases():
            drift = f"slope {case.slope:g}" if case.slope != 1 else f"{case.shift:+g}"
            shares = shares_of(results(case)) if case.shift else [*shares_of(results(case))[:3], "", ""]
            print(described(case), drift, "|", " | ".join(shares), "|", flush=True)


def shares_of(made: list[tuple[bool, str, float]]) -> list[str]:
    """Return the shares of repetitions: found, with either answer, and found by the best test.

    The best test has first the level of the first check of `kgcal watch`, and does not know the direction of the shift.
    Then it has the level ALPHA in one look, and knows the direction.
    """
    roots = np.array([root for _, _, root in made])
    shares = [np.mean([found for found, *_ in made])]
    shares += [np.mean([answer == kind for _, answer, _ in made]) for kind in (SHIFT, REFIT)]
    shares += [np.mean([corrected(2 * ndtr(-abs(root)), SHIFT_SHARE, 1) < ALPHA for root in roots])]
    shares += [np.mean(ndtr(-roots) < ALPHA)]
    return [f"{share:.3f}" for share in shares]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
