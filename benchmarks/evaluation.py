"""Measure what intervals cost: the time to evaluate six calibrators on 20,000 triples, and to compute metrics alone.

python benchmarks/evaluation.py [--triples 20000]
"""

import argparse
import time

import numpy as np
from scipy.special import expit

from kgcore.config import EvaluateConfig
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import ece

CALIBRATORS, ROUNDS = 6, 3


def predictions(n: int) -> Predictions:
    """Return the probabilities of several calibrators. Each calibrator is more overconfident than the one before."""
    rng = np.random.default_rng(0)
    scores = 2 * rng.normal(size=n)
    labels = (rng.random(n) < expit(scores)).astype(np.float64)
    q = {f"synthetic.{number}": expit((1 + number / 10) * scores) for number in range(CALIBRATORS)}
    accuracies = {label: float(((p > 0.5) == labels).mean()) for label, p in q.items()}
    triples = np.zeros((n, 3), dtype=np.int64)
    return Predictions(triples, labels, np.ones(n), scores, q, accuracies, {}, [], False)


def plain(judged: Predictions) -> None:
    """Compute three metrics without intervals."""
    for q in judged.probabilities.values():
        for figure in (brier, log_loss, ece):
            figure(q, judged.labels, judged.weights)


def main() -> None:
    parser = argparse.ArgumentParser(description="time of an evaluation")
    parser.add_argument("--triples", type=int, default=20_000)
    judged, config = predictions(parser.parse_args().triples), EvaluateConfig()
    taken: dict[str, list[float]] = {"plain": [], "all": []}
    for _ in range(ROUNDS):
        for name, run in (("plain", lambda: plain(judged)), ("all", lambda: evaluate(judged, config))):
            started = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - started)
    least = {name: min(times) for name, times in taken.items()}
    print(f"{len(judged.labels):,} triples, {CALIBRATORS} calibrators, {config.bootstrap_replicates} resamplings:")
    print(
        f"Brier score, log loss and ECE alone {1000 * least['plain']:.1f} ms; all with intervals {least['all']:.2f} s: "
        f"a resampling of all metrics costs {least['all'] / config.bootstrap_replicates / least['plain']:.1f} times "
        "those three"
    )


if __name__ == "__main__":
    main()
