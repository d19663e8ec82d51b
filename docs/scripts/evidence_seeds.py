"""Make the tables of three seeds in docs/explanation/evidence.md: probabilities with evidence, with and without names.

    python docs/scripts/evidence_seeds.py wn11 fb13 > tables.md

Each run is `kgcal run --dataset DATASET --evidence GROUPS --candidates valid --base-rate 0.5` with the settings of the
default preset, and with one number for every seed in SEEDS_OF. The candidates are the validation triples, with their
labels hidden. The base rate of the labelled triples is one half. So each run has calibrators that are fitted to the
labels, and others that see no label. Labels of test only measure. Finished stages are re-used: the two rows of a data
set share their trained models.

A row is the calibrator that answers: the one that validation chooses. The second table compares the reliability of
single relations with that of the calibrator that answered before evidence, `per_relation`. `error`: the smooth ECE of
each relation with at least 100 test triples, averaged over their triples. `off`: the share of relations whose mean
probability is outside the 95 % Wilson interval of their share of true triples.
"""

import sys
from collections.abc import Iterator, Mapping
from statistics import mean, stdev
from typing import Any

import numpy as np
from ablation import run

from kgcore.calibrate.validation import FIGURE
from kgcore.config import EvidenceConfig
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.reliability import smooth_ece
from tasks.tracking.artifacts import CALIBRATION_AUDIT, PREDICTIONS
from tasks.tracking.store import open_store

SEEDS = (0, 1, 2)
SEEDS_OF = ("--seed", "--calibration-seed", "--match-seed", "--combine-seed", "--bootstrap-seed")
GRAPH = ("score", "cohorts", "degrees", "types", "neighbours", "paths", "rules", "constants")
EVIDENCE = {"without names": GRAPH, "with names": EvidenceConfig().evidence}
KINDS = {"labels": "ground_truth", "no label": "candidates"}
METRICS = ("brier", "log_loss", "accuracy", "smooth_ece")
BARS = {  # of the table: the largest Brier score and log loss, the least accuracy, the largest smooth ECE
    ("wn11", "labels"): (0.052, 0.175, 0.928, 0.012),
    ("fb13", "labels"): (0.072, 1.0, 0.905, 0.012),
    ("wn11", "no label"): (0.058, 1.0, 0.0, 1.0),
    ("fb13", "no label"): (0.075, 1.0, 0.0, 1.0),
}
BEFORE = "per_relation"  # the calibrator that answers without evidence
FEWEST = 100  # test triples of a relation whose error is measured


def options(dataset: str, groups: tuple[str, ...], seed: int) -> list[str]:
    """Return the options of a run."""
    seeds = [part for name in SEEDS_OF for part in (name, str(seed))]
    chosen = ["--evidence", ",".join(groups), "--candidates", "valid", "--base-rate", "0.5"]
    return ["--dataset", dataset, *chosen, *seeds]


def answering(audit: Mapping[str, float]) -> tuple[str, str]:
    """Return the calibrator with the lowest figure of validation, and the one with the lowest figure without evidence.

    audit  the figures of one kind of negatives
    """
    figures = {name.removeprefix(FIGURE): value for name, value in audit.items() if name.startswith(FIGURE)}
    alone = {name: value for name, value in figures.items() if name != "boosted_trees"}
    return min(figures, key=lambda name: figures[name]), min(alone, key=lambda name: alone[name])


def in_words(found: list[list[float]], bars: tuple[float, ...] | None = None) -> str:
    """Return mean ± standard deviation of each metric as cells. A mean that misses its bar is in bold."""
    cells = []
    for place, values in enumerate(zip(*found, strict=True)):
        text = f"{mean(values):.4f} ± {stdev(values) if len(values) > 1 else 0.0:.4f}"
        wrong = bars and ((mean(values) < bars[place]) if METRICS[place] == "accuracy" else mean(values) > bars[place])
        cells.append(f"**{text}**" if wrong else text)
    return " | ".join(cells)


def by_relation(predictions: Predictions, label: str) -> tuple[float, float]:
    """Return the mean error of relations, and the share of relations that are off: see above."""
    from kgcore.measure.evaluation.groups import reliability_by_relation

    found, q = [], predictions.probabilities[label]
    for one in reliability_by_relation(predictions):
        if one.triples >= FEWEST:
            own = predictions.triples[:, 1] == one.predicate
            is_off = not one.low <= one.calibrators[label]["predicted"] <= one.high
            found.append((one.triples, smooth_ece(Sample(q[own], predictions.labels[own]).tally()), is_off))
    triples, errors, off = np.array(found, dtype=float).T
    return float(np.average(errors, weights=triples)), float(off.mean())


def rows(dataset: str) -> Iterator[tuple[str, str]]:
    """Yield the rows of both tables for a data set, as pairs of a table's title and a row."""
    for words, groups in EVIDENCE.items():
        runs = [run(options(dataset, groups, seed)) for seed in SEEDS]
        audits = [open_store().load(one["runs"]["calibrate"], CALIBRATION_AUDIT) for one in runs]
        drawn = [open_store().load(one["runs"]["classify"], PREDICTIONS) for one in runs]
        for kind, negatives in KINDS.items():
            chosen = [answering(audit[negatives]) for audit in audits]
            choices = {words: [own for own, _ in chosen]}
            if words == "without names":
                choices = {"one score": [alone for _, alone in chosen], **choices}
            for title, names in choices.items():
                found = [_metrics(one, negatives, name) for one, name in zip(runs, names, strict=True)]
                said = ", ".join(sorted(set(names)))
                bars = None if title == "one score" else BARS.get((dataset, kind))
                yield "metrics", f"| {dataset}, {kind} | {title} | {said} | {in_words(found, bars)} |"
            for title, names in {BEFORE: [BEFORE] * len(runs), **choices}.items():
                pairs = zip(drawn, names, strict=True)
                found = [list(by_relation(one, f"{negatives}.{name}")) for one, name in pairs]
                cells = " | ".join(f"{mean(values):.4f}" for values in zip(*found, strict=True))
                yield "relations", f"| {dataset}, {kind} | {title} | {cells} |"


def _metrics(results: Mapping[str, Any], negatives: str, name: str) -> list[float]:
    return [float(results["metrics"][negatives][name][metric]) for metric in METRICS]


def main(datasets: list[str]) -> None:
    """Print both tables."""
    found = [row for dataset in datasets for row in rows(dataset)]
    names = " | ".join(METRICS).replace("_", " ").replace("ece", "ECE")
    heads = {"metrics": f"| | evidence | answers | {names} |", "relations": "| | evidence | error | off |"}
    for title, head in heads.items():
        print(f"\n{head}\n{'|---' * (head.count('|') - 1)}|")
        print("\n".join(dict.fromkeys(row for kind, row in found if kind == title)))


if __name__ == "__main__":
    main(sys.argv[1:])
