"""Make the second table of docs/explanation/splits.md: drugs and diseases, split at random and by cold diseases.

    python docs/scripts/splits.py drugs.tsv > table.md

The file has the triples of a drug-disease graph without splits. For every seed, `--split cold:object:treats` draws
valid and test, and as many further facts of `treats` are drawn from train at random. The rows of the table have one
train: their valid and test are drawn at random or by cold diseases. Each row is a `kgcal run` on a folder of them, and
the table has the mean and the standard deviation over the seeds.
"""

import sys
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from ablation import run

from kgcore.config.base import SplitRule
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.draw import SplitDraw
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph

PREDICATE, SEEDS, SHARE = "treats", range(5), 0.15
OPTIONS = ["--preset", "default", "--calibration-sides", "subject"]
ROWS = {
    "at random, at random": ("random", "more"),
    "at random, cold": ("random", "test"),
    "cold, cold": ("valid", "test"),
}
METRICS = ("ece", "debiased_rmsce", "brier", "auroc")
CALIBRATORS = ("beta", "smoothed_isotonic")


def parts_of(graph: KnowledgeGraph, seed: int) -> dict[str, np.ndarray]:
    """Return train, and the triples that could be valid or test: drawn cold, or drawn at random from train."""
    rng, facts = np.random.default_rng(seed), graph.train.triples
    asked = rng.permutation(np.flatnonzero(facts[:, 1] == list(graph.predicates).index(PREDICATE)))
    first, second = len(graph.valid), len(graph.valid) + len(graph.test)
    kept = np.setdiff1d(np.arange(len(facts)), asked[:second])
    cold = {"valid": graph.valid.triples, "test": graph.test.triples}
    return cold | {"train": facts[kept], "random": facts[asked[:first]], "more": facts[asked[first:second]]}


def results(file: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Return the results of the three rows for one seed."""
    graph = prepare(
        find_dataset(str(file)),
        file.parent,
        draw=SplitDraw(SHARE, SHARE, seed, SplitRule.of(f"cold:object:{PREDICATE}")),
    ).graph
    parts, found = parts_of(graph, seed), {}
    with TemporaryDirectory() as place:
        for name, (valid, test) in ROWS.items():
            folder = Path(place) / name.replace(", ", "-").replace(" ", "-")
            folder.mkdir()
            for split, part in {"train": "train", "valid": valid, "test": test}.items():
                graph.names_of(parts[part]).to_csv(folder / f"{split}.txt", sep="\t", header=False, index=False)
            found[name] = run(["--dataset", str(folder), *OPTIONS])
    return found


def main(file: Path) -> None:
    """Print the table."""
    print("| valid, test | calibrator | ECE | debiased RMSCE | Brier score | AUROC |\n|---|---|---|---|---|---|")
    every = [results(file, seed) for seed in SEEDS]
    for name in ROWS:
        for calibrator in CALIBRATORS:
            found = [one[name]["metrics"]["synthetic"][calibrator] for one in every]
            values = [[one[metric] for one in found] for metric in METRICS]
            cells = " | ".join(f"{mean(own):.3f} ± {stdev(own):.3f}" for own in values)
            print(f"| {name} | {calibrator.replace('_', ' ')} | {cells} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
