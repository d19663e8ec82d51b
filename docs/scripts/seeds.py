"""Make the table of presets in docs/explanation/corruptions.md: mean and standard deviation over several seeds.

    python docs/scripts/seeds.py wn11 fb13 > table.md

Each run is `kgcal run --dataset DATASET --preset PRESET --calibrators platt,isotonic,per_relation`, with the same
number for every seed in SETTINGS: the training, the corruptions and the bootstrap vary. Finished runs are re-used.
"""

import sys
from statistics import mean, stdev

from ablation import run

PRESETS = ("default", "best")
SEEDS = (0, 1, 2)
SETTINGS = ("--seed", "--calibration-seed", "--bootstrap-seed")
ROWS = [
    (negatives, name) for negatives in ("ground_truth", "synthetic") for name in ("platt", "isotonic", "per_relation")
]
METRICS = ("brier", "log_loss", "accuracy", "smooth_ece", "auroc")


def table(dataset: str, preset: str) -> None:
    """Print a row for every calibrator: mean ± standard deviation over seeds."""
    fixed = ["--dataset", dataset, "--preset", preset, "--calibrators", "platt,isotonic,per_relation"]
    runs = [run([*fixed, *(part for name in SETTINGS for part in (name, str(seed)))]) for seed in SEEDS]
    seconds = ", ".join(f"{result['seconds']['train']:.0f}" for result in runs)
    print(f"\n**{dataset}, {preset}** (seeds 0, 1, 2; training {seconds} s)\n")
    print(f"| | {' | '.join(METRICS).replace('_', ' ')} |\n|---|{'---|' * len(METRICS)}")
    for negatives, name in ROWS:
        found = [result["metrics"][negatives][name] for result in runs]
        values = [[one[metric] for one in found] for metric in METRICS]
        cells = " | ".join(f"{mean(own):.4f} ± {stdev(own):.4f}" for own in values)
        print(f"| {negatives}, {name} | {cells} |".replace("_", " "), flush=True)


if __name__ == "__main__":
    for dataset in sys.argv[1:]:
        for preset in PRESETS:
            table(dataset, preset)
