"""Measure false findings of `kgcal watch` for a calibrator that sees evidence: real evidence, known truth, no drift.

    python docs/scripts/evidence_drift.py wn11 fb13 > table.md

The worlds are those of evidence_coverage.py. A repetition draws all labels anew, and fits the calibrator to those of
valid: to all, or to FEW of them, because a combiner of a fold is then worse than that of all rows. One half of test
gives the reference of the scores. From the other half, CHECKS sets of new labels are drawn. The calibration sample of
`watch` has log-odds of combiners that have not seen the triple; new triples have those of the combiner that is fitted
to all rows. `score`: the same with `beta` on the score of the model, which has no such difference. Columns: the share
of checks with a finding (at most ALPHA is right), and with a corrected p-value below ALPHA in each test.
"""

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
from evidence_coverage import World, fit_to_labels, world

from kgcore.arrays import Labels
from kgcore.calibrate.beta import Beta
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample
from kgcore.config import WatchConfig
from kgcore.scores.table import LABELLED
from kgcore.wings.monitoring.drift import DriftReference, find_evidence, report
from kgcore.wings.monitoring.two_samples import NewTriples

REPETITIONS, CHECKS, SIZES, ALPHA = 8, 40, (1_000, 4_000), 0.05
FEW = 2_000  # rows of valid


def with_few(own: World, rng: np.random.Generator) -> World:
    """Return the world with FEW labelled rows of valid."""
    valid = np.flatnonzero(own.table.rows("valid", LABELLED))
    split = own.table.split.copy()
    split[rng.permutation(valid)[FEW:]] = "not used"
    return replace(own, table=replace(own.table, split=split))


def samples(own: World, labels: Labels) -> dict[str, tuple[CalibrationSample, np.ndarray, np.ndarray]]:
    """Return name -> the calibration sample, the scores of the rows of test, and their probabilities."""
    test, valid = (own.table.rows(split, LABELLED) for split in ("test", "valid"))
    predicates = own.table.triples[test, 1]
    bound, held_out = fit_to_labels(own, labels)
    assert bound.combined is not None
    z = bound.combined.scores(own.evidence.at(test), predicates)
    alone = ground_truth_sample(own.table.scores[valid], labels[valid])
    scores = own.table.scores[test]
    q = Beta().fit_sample(alone).calibrate(scores)
    return {"evidence": (held_out, z, bound.predict(z, bound.model, predicates)), "score": (alone, scores, q)}


def main(datasets: list[str]) -> None:
    """Print the table."""
    print("| | calibrator | new labels | finding | base rate | map | scores |\n|---|---|---|---|---|---|---|")
    for name in datasets:
        every = world(name)
        show(f"{name}, all of valid", [every] * REPETITIONS)
        show(f"{name}, {FEW:,} of valid", [with_few(every, np.random.default_rng(i)) for i in range(REPETITIONS)])


def show(title: str, worlds: list[World]) -> None:
    """Print the rows of one repetition for each world."""
    config = WatchConfig(alpha=ALPHA)
    counts, total = Counter[tuple[str, int, str]](), Counter[tuple[str, int]]()
    test = worlds[0].table.rows("test", LABELLED)
    for seed, own in enumerate(worlds):
        rng = np.random.default_rng(seed)
        labels = (rng.random(len(own.truth)) < np.nan_to_num(own.truth)).astype(np.float64)
        first = rng.random(int(test.sum())) < 0.5
        for kind, (sample, scores, q) in samples(own, labels).items():
            origin = DriftReference(sample, sample.base_rate, False, scores[first], np.ones(int(first.sum())))
            for size in SIZES * CHECKS:
                drawn = rng.choice(np.flatnonzero(~first), size, replace=False)
                # the labels are drawn anew, too: the sets of one repetition would share them otherwise
                y = (rng.random(size) < own.truth[test][drawn]).astype(np.float64)
                found = find_evidence(q[drawn], NewTriples(scores[drawn], y), origin)
                total[kind, size] += 1
                counts[kind, size, "finding"] += bool(report(found, config).findings)
                for test_name in ("shift_p", "map_p", "psi_p"):
                    counts[kind, size, test_name] += getattr(found, test_name) < ALPHA
    for kind, size in total:
        rates = [counts[kind, size, one] / total[kind, size] for one in ("finding", "shift_p", "map_p", "psi_p")]
        print(f"| {title} | {kind} | {size:,} | {' | '.join(f'{rate:.3f}' for rate in rates)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
