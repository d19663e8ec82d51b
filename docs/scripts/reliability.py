"""Draw a reliability diagram before and after calibration, from the results of a run.

    kgcal run --dataset wn11 --json wn11.json
    python docs/scripts/reliability.py wn11.json docs/images/reliability.png

The left panel shows the sigmoid of the raw scores, the right panel `per_relation`, fitted with labelled and with
synthetic negatives. If the data set has no labelled negatives, the right panel shows only the second of these curves.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kgcore.measure.evaluation.evaluate import Measured
from kgcore.measure.report.plots import COLOURS, new_figure
from tasks.tracking.artifacts import MEASURED
from tasks.tracking.store import open_store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE = {"uncalibrated": "sigmoid of the score"}
AFTER = {"ground_truth.per_relation": "labelled negatives", "synthetic.per_relation": "synthetic negatives"}
TITLES = ("before calibration", "after calibration")


def draw(measured: dict[str, Measured], target: Path) -> None:
    """Write the two panels as PNG. The shaded areas are 95 % intervals of the share of true triples."""
    figure = new_figure(7.6, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, curves, title in zip(panels, (BEFORE, AFTER), TITLES, strict=True):
        axes.plot([0, 1], [0, 1], "--", color="0.6", linewidth=1)
        axes.set(title=title, xlabel="predicted probability", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.spines[["top", "right"]].set_visible(False)
        for number, (label, name) in enumerate(curves.items()):
            if label in measured:
                _curve(axes, measured[label], name, COLOURS[number + (curves is AFTER)])
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    panels[0].set_ylabel("share of true triples")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)


def _curve(axes: "Axes", result: Measured, name: str, colour: str) -> None:
    bins = result.reliability
    label = f"{name}: Brier score {result.metrics['brier']:.3f}"
    axes.plot(bins.predicted, bins.observed, "o-", markersize=3.5, color=colour, label=label)
    axes.fill_between(bins.predicted, bins.low, bins.high, color=colour, alpha=0.18, linewidth=0)


def main(results: Path, target: Path) -> None:
    """Find the evaluation of the run in MLflow, and draw its diagram."""
    run_id = json.loads(results.read_text(encoding="utf-8"))["runs"]["evaluate"]
    draw(open_store().load(run_id, MEASURED), target)
    print(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
