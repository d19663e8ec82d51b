"""Make the tables of docs/explanation/corruptions.md: the effect of corruptions in training and in calibration.

    python docs/scripts/ablation.py wn11 fb13 > tables.md      # models trained with both entries of TRAINING
    python docs/scripts/ablation.py wn11:uniform fb13:typed    # models trained as in the presets

Each row is one `kgcal run` with --calibration-strategy, --calibration-sides and --calibration-filtered or
--no-calibration-filtered, and with few resamplings. The gap is the Brier score of isotonic regression with synthetic
negatives minus its Brier score with labelled negatives. The accuracy is that of isotonic regression at threshold 0.5.
Finished runs are re-used, so the script can be stopped and started again. A table needs one training, and then some
seconds per row.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from flows.cli.main import whole_app

app = whole_app()

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
    """Return the results of `kgcal run` with these options."""
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
    """Print the table of one trained model, with a row for each way to draw the corruptions of calibration."""
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
    """Return the cells with the Brier scores of Platt scaling and isotonic regression."""
    return f"{metrics['platt']['brier']:.4f} | {metrics['isotonic']['brier']:.4f}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        dataset, _, chosen = argument.partition(":")
        for trained in [chosen] if chosen else TRAINING:
            table(dataset, trained)
