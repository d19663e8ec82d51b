"""Measure what cross-fitting does to probabilities from evidence, with rows whose true probabilities are known.

    python docs/scripts/cross_fitted.py

A combiner is fitted to n rows. Platt scaling and its confidence limits are then fitted to the combiner's log-odds:
those of its own rows, or cross-fitted ones. Columns: the Brier score and the smooth ECE of new rows, the share of new
rows whose 95 % interval contains the true share of positives at their log-odds, and the mean width of the intervals.
"""

import numpy as np
from scipy.special import expit

from kgcore.arrays import Floats, Probabilities
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.calibrate.support import Support
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.fit import cross_fit
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.reliability import smooth_ece
from kgcore.registries import COMBINERS, MADE_OF_FITTED

ROWS, NEW_ROWS, SEEDS, NEAR = (1000, 4000), 40_000, range(3), 401
FEATURES = ("score", *(f"feature_{number}" for number in range(1, 12)))


def draw(rows: int, rng: np.random.Generator) -> tuple[EvidenceSample, Probabilities]:
    """Return rows and their true probabilities: an interaction, missing values, and eight features without effect."""
    values = rng.normal(size=(rows, len(FEATURES))).astype(np.float32)
    values[:, 1] = np.round(np.exp(values[:, 1]))
    values[rng.random(rows) < 0.1, 3] = np.nan
    predicates = rng.integers(0, 12, rows)
    log_odds = 1.2 * values[:, 0] + 0.8 * np.log1p(values[:, 1]) * values[:, 2] + np.nan_to_num(values[:, 3])
    q = expit(log_odds + 0.7 * (predicates % 3 - 1) - 0.3).astype(np.float64)
    return EvidenceSample(FEATURES, values, (rng.random(rows) < q).astype(float), np.ones(rows), predicates), q


def measure(
    sample: EvidenceSample, fitted: Floats, new: EvidenceSample, found: Floats, q: Probabilities
) -> list[float]:
    """Return the columns for a calibrator that is fitted to the log-odds `fitted` of a sample."""
    calibration = ground_truth_sample(fitted, sample.labels, sample.predicates)
    own = Platt().fit_sample(calibration).calibrate(found)
    low, high = Support.fit(calibration, by_predicate=False).limits(found, None)
    order = np.argsort(found)
    share = np.convolve(q[order], np.full(NEAR, 1 / NEAR), "valid")
    inner = order[NEAR // 2 : -(NEAR // 2)]
    brier = float(np.mean(q * (1 - own) ** 2 + (1 - q) * own**2))
    covered = float(np.mean((low[inner] <= share) & (share <= high[inner])))
    return [brier, smooth_ece(Sample(own, new.labels).tally()), covered, float(np.mean(high - low))]


def main() -> None:
    new, q = draw(NEW_ROWS, np.random.default_rng(999))
    print(f"Brier score of the true probabilities: {np.mean(q * (1 - q)):.4f}\n")
    print("| combiner | rows | calibrator fitted to | Brier | smooth ECE | coverage | width |")
    print("|---|---|---|---|---|---|---|")
    for name in COMBINERS.without(MADE_OF_FITTED).names():
        for rows in ROWS:
            table: dict[str, list[list[float]]] = {"its own rows": [], "cross-fitted log-odds": []}
            for seed in SEEDS:
                rng = np.random.default_rng(seed)
                sample, _ = draw(rows, rng)
                combiner, _, log_odds = cross_fit(name, COMBINERS.get(name)(), sample, rng)
                inside, found = (combiner.log_odds(own.values, own.predicates) for own in (sample, new))
                for kind, fitted in zip(table, (inside, log_odds), strict=True):
                    table[kind].append(measure(sample, fitted, new, found, q))
            for kind, found_rows in table.items():
                brier, error, covered, width = np.mean(found_rows, axis=0)
                print(f"| {name} | {rows:,} | {kind} | {brier:.4f} | {error:.4f} | {covered:.3f} | {width:.3f} |")


if __name__ == "__main__":
    main()
