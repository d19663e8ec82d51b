"""Measure calibration at scale: samples of many weighted corruptions, read from a file in blocks.

python benchmarks/calibrate.py [--rows 100000000] [--peer-rows 10000000] [--json]

A file of random float32 scores is written first: one row in a hundred is a positive, and each corruption has a weight
of its own. Then calibrators are fitted to the file, and the probabilities of isotonic regression are measured. On
`--peer-rows` rows in memory, isotonic regression is compared with scikit-learn's, in turns.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from kgcore.calibration.base import Calibrator
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.stream import Block, SampleStream
from kgcore.metrics.bins import bin_starts, binned_ece_of
from kgcore.metrics.corp import decompose, recalibrated, variance_loss
from kgcore.metrics.reliability import equal_width_bins
from kgcore.metrics.smooth import smooth_ece_of
from kgcore.metrics.tally import Tally, pooled, tally
from kgcore.registries import CALIBRATORS

COLUMNS, WRITTEN, READ, ROUNDS, RATE = 3, 2**20, 2**15, 3, 0.01


def write(path: Path, rows: int) -> None:
    """Write rows of (score, label, weight) as float32. The scores of positives are N(2, 1), the others N(0, 1)."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, rows, WRITTEN):
            count = min(WRITTEN, rows - start)
            labels = rng.random(count) < RATE
            scores = rng.normal(size=count) + 2 * labels
            columns = np.stack([scores, labels, np.where(labels, 1.0, rng.uniform(0.5, 2, count))], axis=1)
            columns.astype(np.float32).tofile(file)


def from_file(path: Path) -> SampleStream:
    """Return the rows of a file as a stream."""

    def read() -> Iterator[Block]:
        with path.open("rb") as file:
            while len(block := np.fromfile(file, np.float32, COLUMNS * READ)):
                scores, labels, weights = block.reshape(-1, COLUMNS).T.astype(np.float64)
                yield scores, labels, weights

    return SampleStream(read)


def figures(stream: SampleStream, calibrator: Calibrator) -> dict[str, float]:
    """Return metrics of a calibrator on a stream, which is read once."""
    t: Tally = pooled(tally(calibrator.calibrate(f), y, w) for f, y, w in stream.blocks())
    brier = t.mean((1 - t.q) ** 2, t.q**2)
    return {
        "brier": brier,
        "ece": binned_ece_of(t, bin_starts(equal_width_bins(t.q, 10))),
        "smooth_ece": smooth_ece_of(t),
        "miscalibration": decompose(brier, variance_loss, *recalibrated(t)).miscalibration,
    }


def timed(run: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def against_scikit_learn(path: Path, rows: int) -> dict[str, float]:
    """Return the time of isotonic regression in memory over that of scikit-learn, and their largest difference."""
    columns = np.fromfile(path, np.float32, COLUMNS * rows).reshape(-1, COLUMNS).T.astype(np.float64)
    sample, grid = CalibrationSample(*columns), np.linspace(columns[0].min(), columns[0].max(), 100_001)
    scores, labels, weights = columns
    ours, peer = Isotonic(), IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1)
    taken = [
        (timed(lambda: ours.fit_sample(sample)), timed(lambda: peer.fit(scores, labels, sample_weight=weights)))
        for _ in range(ROUNDS)
    ]
    difference = float(np.abs(ours.calibrate(grid) - peer.predict(grid)).max())
    return {
        "times_of_scikit_learn": median(a for a, _ in taken) / median(b for _, b in taken),
        "difference": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="time and memory of calibration at scale")
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--peer-rows", type=int, default=10_000_000, help="rows of the comparison; 0: no comparison")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.f32"
        write(path, given.rows)
        found: dict[str, Any] = {"rows": given.rows, "seconds": {}}
        found["seconds"]["read once"] = round(timed(lambda: sum(len(f) for f, _, _ in from_file(path).blocks())), 2)
        fitted: dict[str, Calibrator] = {}
        for name in ("isotonic", "smoothed_isotonic", "platt", "beta"):
            fitted[name] = CALIBRATORS.get(name)()
            found["seconds"][name] = round(timed(lambda one=fitted[name]: one.fit_stream(from_file(path))), 2)
        started = time.perf_counter()
        found["isotonic"] = figures(from_file(path), fitted["isotonic"])
        found["seconds"]["metrics of isotonic"] = round(time.perf_counter() - started, 2)
        found["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        if given.peer_rows:
            found |= against_scikit_learn(path, min(given.peer_rows, given.rows))
    if given.json:
        print(json.dumps(found))
        return
    print(f"{given.rows:,} weighted rows in a file, read in blocks of {READ:,}; at most {found['peak_rss_mb']:,} MB:")
    for name, seconds in found["seconds"].items():
        print(f"  {name:<20} {seconds:8.2f} s")
    if given.peer_rows:
        print(
            f"isotonic regression in memory, {min(given.peer_rows, given.rows):,} rows: time over that of scikit-learn"
        )
        print(f"  {found['times_of_scikit_learn']:.2f}; values within {found['difference']:.0e}")


if __name__ == "__main__":
    main()
