"""Make the table of further models in docs/explanation/evidence.md: what their scores add to the other evidence.

    python docs/scripts/other_models.py wn11 fb13 > table.md

Each row is `kgcal run --dataset DATASET --evidence GROUPS --other-models MODELS` with the settings of the default
preset and seed 0: TransE, and further models beside it. A row has the test figures of `boosted_trees` on labelled
negatives. Finished stages are re-used: the rows of a data set share their trained models.
"""

import sys

from ablation import run

from kgcore.config import EvidenceConfig

EVERY = EvidenceConfig().evidence
GROUPS = {
    "score, cohorts": ("score", "cohorts"),
    "without names": tuple(name for name in EVERY if not name.startswith("name_")),
    "all": EVERY,
}
OTHERS = ("", "distmult", "complex", "distmult,complex")
METRICS = ("brier", "log_loss", "accuracy", "smooth_ece")


def main(datasets: list[str]) -> None:
    """Print the table."""
    print("| | evidence | further models | Brier | log loss | accuracy | smooth ECE |\n|---|---|---|---|---|---|---|")
    for dataset in datasets:
        for words, groups in GROUPS.items():
            for others in OTHERS:
                options = ["--dataset", dataset, "--evidence", ",".join(groups), "--other-models", others]
                found = run(options)["metrics"]["ground_truth"]["boosted_trees"]
                cells = " | ".join(f"{found[name]:.4f}" for name in METRICS)
                print(f"| {dataset} | {words} | {others.replace(',', ', ') or 'none'} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
