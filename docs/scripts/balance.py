"""Make the table "Each relation has the base rate" of docs/explanation/corruptions.md from score tables.

    python docs/scripts/balance.py artifacts/*/artifacts/scores.parquet > table.md        # in the folder KGCAL_HOME

Each score table is one of a graph without labelled negatives. The weights of equation 5 and the balanced ones are
fitted on validation, and both are measured on the test sample with balanced weights.
"""

import sys
from pathlib import Path

import numpy as np

from kgcore.arrays import Weights
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, both_labels
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import ScoreTable
from kgcore.storage.tables import read_scores

ALPHA = 0.5
HEADER = (
    "| weights | lowest and highest base rate of a relation | positives in relations above .55 | calibrator | Brier "
    "| log loss | mean error of a relation |"
)


def sample_of(table: ScoreTable, balanced: bool) -> CalibrationSample:
    """Return the validation sample with balanced weights, or with those of equation 5."""
    rows = table.rows("valid", None)
    rows[rows] = (table.origin[rows] == "corruption") | (table.labels[rows] == 1)
    rows[rows] = both_labels(table.labels[rows], table.triples[rows, 1])
    labels, predicates = table.labels[rows], table.triples[rows, 1]
    weights = base_rate_weights(labels, ALPHA, predicates if balanced else None)
    return CalibrationSample(table.scores[rows], labels, weights, predicates)


def rates(sample: CalibrationSample) -> tuple[float, float, float]:
    """Return the lowest and the highest base rate of a relation, and the share of positives in those above .55."""
    assert sample.predicates is not None
    true = np.bincount(sample.predicates, sample.weights * sample.labels)
    shares = true / np.maximum(np.bincount(sample.predicates, sample.weights), 1e-300)
    own = shares[sample.predicates[sample.labels == 1]]
    return float(own.min()), float(own.max()), float((own > 0.55).mean())


def error_by_relation(q: np.ndarray, labels: np.ndarray, weights: Weights, predicates: np.ndarray) -> float:
    """Return the mean of |mean probability - share of positives| over relations, by weight."""
    gaps = np.abs(np.bincount(predicates, weights * (q - labels)))
    return float(gaps.sum() / weights.sum())


def main(paths: list[str]) -> None:
    """Print the table of each score table."""
    for path in paths:
        table = read_scores(Path(path))
        test = table.measured("test")
        y, p = table.labels[test], table.triples[test, 1]
        w = base_rate_weights(y, ALPHA, p)
        print(f"\n{path}\n\n{HEADER}\n{'|---' * 7}|")
        for name in ("smoothed_isotonic", "beta", "per_relation"):
            for balanced in (False, True):
                sample = sample_of(table, balanced)
                low, high, above = rates(sample)
                q = CALIBRATORS.get(name)().fit_sample(sample).calibrate_of(table.scores[test], p)
                figures = f"{brier(q, y, w):.4f} | {log_loss(q, y, w):.4f} | {error_by_relation(q, y, w, p):.4f}"
                kind = "balanced" if balanced else "equation 5"
                print(f"| {kind} | {low:.3f}, {high:.3f} | {above:.1%} | {name} | {figures} |")


if __name__ == "__main__":
    main(sys.argv[1:])
