"""Make the tables of docs/explanation/hidden-facts.md from score tables.

    python docs/scripts/hidden_facts.py artifacts/*/artifacts/scores.parquet > table.md   # in the folder KGCAL_HOME

A calibrator is fitted three times to the validation positives and their corruptions: all of these count as false; they
count as `hidden_facts` says; the facts of test among them are removed, which no fit may do. The three are measured on
the positives and corruptions of test, and the estimated share is compared with the true one.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from kgcore.arrays import Bools
from kgcore.calibrate.fit import synthetic_of
from kgcore.calibrate.hidden import hidden_facts
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, both_labels
from kgcore.config import CalibrateConfig
from kgcore.data.graph import TripleIndex
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.proper import brier
from kgcore.measure.metrics.reliability import debiased_rmsce
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import LABELLED, ScoreTable
from kgcore.storage.tables import read_scores

BASE_RATES = (0.5, 0.1, 0.01)
FITTED = ("per_relation", "smoothed_isotonic", "beta")
WAYS = ("all count as false", "corrected", "hidden facts removed")


def true_corruptions(table: ScoreTable) -> Bools:
    """Return which of the corruptions (m,) of a score table are facts of test."""
    entities, predicates = int(table.triples[:, [0, 2]].max()) + 1, int(table.triples[:, 1].max()) + 1
    test = TripleIndex(table.triples[table.rows("test", LABELLED, 1)], entities, predicates)
    return test.contains(table.triples[table.corruptions()])


def samples_of(table: ScoreTable, base_rate: float) -> Iterator[CalibrationSample]:
    """Yield the sample of each of the WAYS at a base rate in (0, 1)."""
    config, hidden = CalibrateConfig(base_rate=base_rate), hidden_facts(table)
    assert hidden is not None, "the corruptions of the score table have known facts among them"
    every = synthetic_of(table, config, None, 0.0)
    yield every
    yield synthetic_of(table, config, hidden, hidden.share.share)
    kept = every.labels == 1
    kept[~kept] = ~true_corruptions(table)
    assert every.predicates is not None
    kept[kept] = both_labels(every.labels[kept], every.predicates[kept])
    rest = every.part(kept)
    yield replace(rest, weights=base_rate_weights(rest.labels, base_rate, rest.predicates, rest.counts))


def measure(table: ScoreTable, sample: CalibrationSample, name: str, base_rate: float) -> tuple[float, float]:
    """Return the Brier score and the debiased RMSCE, on test, of a calibrator fitted to a sample."""
    rows = table.measured("test")
    labels, predicates = table.labels[rows], table.triples[rows, 1]
    weights = base_rate_weights(labels, base_rate, predicates)
    q = CALIBRATORS.get(name)().fit_sample(sample).calibrate_of(table.scores[rows], predicates)
    return brier(q, labels, weights), debiased_rmsce(Sample(q, labels, weights).tally())


def main(paths: list[str]) -> None:
    """Print the share of hidden facts and the table of each score table."""
    for path in paths:
        table = read_scores(Path(path))
        if table.judged_alone("test") or (hidden := hidden_facts(table)) is None:
            continue
        share = float(np.average(true_corruptions(table), weights=hidden.weights))
        print(f"{path}: estimated {hidden.share}, true {100 * share:.2g} %\n")
        print("| base rate | calibrator |" + "".join(f" {way}: Brier, debiased RMSCE |" for way in WAYS))
        print("|---|---|" + "---|" * len(WAYS))
        for base_rate in BASE_RATES:
            for name in FITTED:
                found = [measure(table, sample, name, base_rate) for sample in samples_of(table, base_rate)]
                cells = " | ".join(f"{score:.4f}, {error:.4f}" for score, error in found)
                print(f"| {base_rate:g} | `{name}` | {cells} |")


if __name__ == "__main__":
    main(sys.argv[1:])
