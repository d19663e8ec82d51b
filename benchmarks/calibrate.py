"""Measure calibration at scale: a sample of many weighted corruptions in memory.

python benchmarks/calibrate.py [--rows 10000000] [--json]

One row in a hundred is a positive, and each corruption has its own weight. Calibrators are fitted to the sample, and
the probabilities of isotonic regression are measured. Isotonic regression is compared with scikit-learn's, in turns.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.sample import CalibrationSample
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.proper import decompose, recalibrated, variance_loss
from kgcore.measure.metrics.reliability import bin_starts, binned_ece, equal_width_bins, smooth_ece
from kgcore.registries import CALIBRATORS

ROUNDS, RATE = 3, 0.01


def sample_of(rows: int) -> CalibrationSample:
    """Return a sample. The scores of positives are N(2, 1), those of corruptions N(0, 1), weighted by U(0.5, 2)."""
    rng = np.random.default_rng(0)
    labels = (rng.random(rows) < RATE).astype(np.float64)
    weights = np.where(labels == 1, 1.0, rng.uniform(0.5, 2, rows))
    return CalibrationSample(rng.normal(size=rows) + 2 * labels, labels, weights)


def figures(sample: CalibrationSample, calibrator: Calibrator) -> dict[str, float]:
    """Return metrics of a calibrator on a sample."""
    t = Sample(calibrator.calibrate(sample.scores), sample.labels, sample.weights).tally()
    brier = t.mean((1 - t.q) ** 2, t.q**2)
    return {
        "brier": brier,
        "ece": binned_ece(t, bin_starts(equal_width_bins(t.q, 10))),
        "smooth_ece": smooth_ece(t),
        "miscalibration": decompose(brier, variance_loss, *recalibrated(t)).miscalibration,
    }


def timed(run: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def against_scikit_learn(sample: CalibrationSample) -> dict[str, float]:
    """Return the time of isotonic regression over that of scikit-learn, and their largest difference."""
    f, y, w = sample.scores, sample.labels, sample.weights
    grid = np.linspace(f.min(), f.max(), 100_001)
    ours, peer = Isotonic(), IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1)
    taken = [
        (timed(lambda: ours.fit_sample(sample)), timed(lambda: peer.fit(f, y, sample_weight=w))) for _ in range(ROUNDS)
    ]
    difference = float(np.abs(ours.calibrate(grid) - peer.predict(grid)).max())
    return {
        "times_of_scikit_learn": median(a for a, _ in taken) / median(b for _, b in taken),
        "difference": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="time and memory of calibration at scale")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    sample = sample_of(given.rows)
    found: dict[str, Any] = {"rows": given.rows, "seconds": {}}
    fitted: dict[str, Calibrator] = {}
    for name in ("isotonic", "smoothed_isotonic", "platt", "beta"):
        fitted[name] = CALIBRATORS.get(name)()
        found["seconds"][name] = round(timed(lambda one=fitted[name]: one.fit_sample(sample)), 2)
    started = time.perf_counter()
    found["isotonic"] = figures(sample, fitted["isotonic"])
    found["seconds"]["metrics of isotonic"] = round(time.perf_counter() - started, 2)
    found["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    found |= against_scikit_learn(sample)
    if given.json:
        print(json.dumps(found))
        return
    print(f"{given.rows:,} weighted rows; at most {found['peak_rss_mb']:,} MB:")
    for name, seconds in found["seconds"].items():
        print(f"  {name:<20} {seconds:8.2f} s")
    print(f"isotonic regression: time over that of scikit-learn {found['times_of_scikit_learn']:.2f}")
    print(f"  values within {found['difference']:.0e}")


if __name__ == "__main__":
    main()
