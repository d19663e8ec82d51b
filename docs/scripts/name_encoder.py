"""Make the table of a sentence encoder in docs/explanation/names.md: what it adds to other evidence.

    python docs/scripts/name_encoder.py FOLDER wn11 > table.md

FOLDER has a model of sentence-transformers. Each row is `kgcal run --dataset DATASET --evidence GROUPS`, with and
without `--name-encoder FOLDER`, with the settings of the default preset and seed 0. A row has the test figures of
`boosted_trees` on labelled negatives. Finished stages are re-used.
"""

import sys

from ablation import run

from kgcore.config import EvidenceConfig

EVERY = EvidenceConfig().evidence
GROUPS = {
    "score": ("score",),
    "score, names": ("score", *(name for name in EVERY if name.startswith("name_"))),
    "all": EVERY,
}
METRICS = ("brier", "log_loss", "accuracy", "smooth_ece")


def main(folder: str, datasets: list[str]) -> None:
    """Print the table."""
    print("| | evidence | encoder | Brier | log loss | accuracy | smooth ECE |\n|---|---|---|---|---|---|---|")
    for dataset in datasets:
        for words, groups in GROUPS.items():
            for said, encoder in (("none", ""), ("name_encoder", folder)):
                options = ["--dataset", dataset, "--evidence", ",".join(groups), "--name-encoder", encoder]
                found = run(options)["metrics"]["ground_truth"]["boosted_trees"]
                cells = " | ".join(f"{found[name]:.4f}" for name in METRICS)
                print(f"| {dataset} | {words} | {said} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
