"""Makes the tables of docs/beyond-the-paper.md: what corruptions are worth, in training and in calibration.

    python docs/ablation.py wn11 fb13 > tables.md      # models trained both ways
    python docs/ablation.py wn11:uniform fb13:typed    # as the presets train them

Each cell is what `kgcal run` with the options beside it does. Finished stages are re-used, so that a table costs one
training a row of TRAINING and some seconds a cell, and can be stopped and started again.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from flows.commands import app

TRAINING = {
    "uniform": ["--negatives", "uniform", "--no-bernoulli"],
    "typed": ["--negatives", "typed", "--bernoulli"],
}
CALIBRATION = [
    *(("uniform", side, filtered) for side in ("both", "object", "bernoulli") for filtered in (False, True)),
    *(("typed", side, filtered) for side in ("both", "object", "bernoulli") for filtered in (False, True)),
    *((f"typed={share},uniform={1 - share:.1f}", "bernoulli", True) for share in (0.9, 0.8, 0.5)),
    *((strategy, "bernoulli", True) for strategy in ("relational", "batch", "nearest", "near_miss")),
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
    print("| negatives | options | Platt | isotonic | accuracy |\n|---|---|---|---|---|")
    for number, (strategy, sides, filtered) in enumerate(CALIBRATION):
        options = ["--strategy", strategy, "--sides", sides, "--filtered" if filtered else "--no-filtered"]
        metrics = run([*fixed, *options])["metrics"]
        if not number:
            print(f"| labelled | | {row(metrics['ground_truth'])} |")
        print(f"| {strategy} | `{' '.join(options[2:])}` | {row(metrics['synthetic'])} |", flush=True)


def row(metrics: dict[str, Any]) -> str:
    """Brier scores, and the accuracy at 0.5 of isotonic regression."""
    platt, isotonic = metrics["platt"], metrics["isotonic"]
    return f"{platt['brier']:.4f} | {isotonic['brier']:.4f} | {isotonic['accuracy']:.4f}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        dataset, _, chosen = argument.partition(":")
        for trained in [chosen] if chosen else TRAINING:
            table(dataset, trained)
