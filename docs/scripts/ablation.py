"""Makes the tables of docs/explanation/corruptions.md: what corruptions are worth, in training and in calibration.

    python docs/scripts/ablation.py wn11 fb13 > tables.md      # models trained both ways
    python docs/scripts/ablation.py wn11:uniform fb13:typed    # as the presets train them

Each cell is what `kgcal run --strategy S --sides SIDE --filtered` (or `--no-filtered`) does, with as few resamplings as
there may be. The gap is isotonic regression's to labelled negatives, the accuracy its at 0.5. What is finished is
re-used: a table costs one training a row of TRAINING and some seconds a cell, and can be stopped and started again.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from flows.cli.commands import app

TRAINING = {
    "uniform": ["--training-strategy", "uniform", "--training-sides", "both"],
    "typed": ["--training-strategy", "typed", "--training-sides", "bernoulli"],
}
SIDES = ("subject", "object", "both", "bernoulli")
STRATEGIES = ("uniform", "typed", "typed=0.9,uniform=0.1", "relational", "batch", "nearest", "near_miss")
CALIBRATION = [
    *((strategy, side, filtered) for strategy in STRATEGIES for side in SIDES for filtered in (False, True)),
    *((f"typed={share},uniform={1 - share:.1f}", "bernoulli", True) for share in (0.8, 0.5)),
]


def run(options: list[str]) -> dict[str, Any]:
    """The results of `kgcal run` with these options."""
    print("kgcal run", *options, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "results.json"
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            app(["run", *options, "--json", str(target)], standalone_mode=False)
        finally:
            sys.stdout = stdout
        results: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
        return results


def table(dataset: str, trained: str) -> None:
    """One model, calibrated against everything."""
    fixed = ["--dataset", dataset, *TRAINING[trained]]
    print(f"\n**{dataset}, trained against {trained} corruptions**: `kgcal run {' '.join(fixed)}`\n")
    print("| negatives | sides | Platt | isotonic | gap | accuracy |\n|---|---|---|---|---|---|")
    for number, (strategy, sides, filtered) in enumerate(CALIBRATION):
        options = [
            "--calibration-strategy",
            strategy,
            "--calibration-sides",
            sides,
            "--calibration-filtered" if filtered else "--no-calibration-filtered",
        ]
        metrics = run([*fixed, *options, "--bootstrap-replicates", "50"])["metrics"]
        labelled, synthetic = metrics["ground_truth"], metrics["synthetic"]
        if not number:
            print(f"| labelled | | {row(labelled)} | | {labelled['isotonic']['accuracy']:.4f} |")
        gap = synthetic["isotonic"]["brier"] - labelled["isotonic"]["brier"]
        accuracy = synthetic["isotonic"]["accuracy"]
        words = f"{strategy} | {sides} {'filtered' if filtered else 'raw'}"
        print(f"| {words} | {row(synthetic)} | {gap:+.4f} | {accuracy:.4f} |", flush=True)


def row(metrics: dict[str, Any]) -> str:
    """Brier scores."""
    return f"{metrics['platt']['brier']:.4f} | {metrics['isotonic']['brier']:.4f}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        dataset, _, chosen = argument.partition(":")
        for trained in [chosen] if chosen else TRAINING:
            table(dataset, trained)
