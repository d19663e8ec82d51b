"""Measure which calibrator answers if few triples are labelled false, and how good it is.

    python docs/scripts/few_labels.py [codex-s family wn11 fb13]

Of the triples of valid that are labelled false, a few are kept, drawn at random; all true ones are. Columns: the mean
Brier score on test of the best calibrator on validation of those that are fitted to the labelled triples, of the best
of those that are fitted to corruptions, and of the calibrator that answers; and how often the labelled ones answer.
KGCAL_MIRROR names the folder or the URL of the data sets.
"""

import os
import sys
from dataclasses import replace

import numpy as np

import kgcore as kg
from kgcore.base_rate import BaseRate

NUMBERS, DRAWS = (20, 50, 200, 500), 3
KINDS = ("ground_truth", "synthetic")


def measured(name: str) -> None:
    """Print a row of the table for each number of labelled negatives of a data set."""
    graph = kg.read(name, mirror=os.environ.get("KGCAL_MIRROR"), progress=False)
    model, valid = kg.train(graph, progress=False), graph.valid
    true, false = (np.flatnonzero(valid.labels == label) for label in (1, 0))
    for number in NUMBERS:
        found = []
        for seed in range(DRAWS):
            drawn = np.random.default_rng(seed).choice(false, number, replace=False)
            kept = replace(graph, valid=valid.part(np.sort([*true, *drawn])), labelled_base_rate=BaseRate(0.5))
            calibrated = kg.calibrate(model, kept, base_rate=0.5, progress=False)
            brier = calibrated.evaluate(bootstrap_replicates=50).brier
            best = [next(label for label in calibrated.labels if label.startswith(f"{kind}.")) for kind in KINDS]
            found.append([*(brier[label] for label in best), brier[calibrated.label], calibrated.label == best[0]])
        labelled, synthetic, answers, how_often = np.mean(found, axis=0)
        print(f"| {name} | {number} | {labelled:.4f} | {synthetic:.4f} | {answers:.4f} | {how_often:.0%} |", flush=True)


def main() -> None:
    print("| data set | labelled false | fitted to labels | fitted to corruptions | answers | labels answer |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:] or ("codex-s", "family", "wn11", "fb13"):
        measured(name)


if __name__ == "__main__":
    main()
