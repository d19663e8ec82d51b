"""The terminal output of `kgcal watch`: the result of one look (check) at a champion."""

from rich.console import Console

from kgcore.report.columns import headline
from tasks.jobs.watch import WatchResult


def show_look(console: Console, seen: WatchResult) -> None:
    """Print the metrics and findings of one look at a champion."""
    figures = seen.metrics
    console.print(f"check {seen.number} of {seen.model}: {figures['triples']:,.0f} newly labelled triples")
    for name in (name for name in headline() if name in figures):
        low, high = figures.get(f"{name}_low"), figures.get(f"{name}_high")
        ends = "" if low is None or high is None else f"  [{low:.4f}, {high:.4f}]"
        console.print(f"{name.replace('_', ' '):<10} {figures[name]:.4f}{ends}")
    console.print(
        f"test of calibration: p = {figures['calibration_p']:.2g}; stability index of the scores: {figures['psi']:.3f}"
    )
    for finding in seen.findings or ("no drift found",):
        console.print(f"* {finding}")
    if seen.recalibrated:
        console.print(f"recalibrated: run {seen.recalibrated}")
