"""The terminal output of `kgcal watch`: the result of one check of a champion."""

from rich.console import Console

from kgcore.report.columns import headline
from tasks.jobs.watch import WatchResult


def show_check(console: Console, seen: WatchResult) -> None:
    """Print the metrics and findings of one check of a champion."""
    figures = seen.metrics
    console.print(f"check {seen.number} of {seen.model}: {figures['triples']:,.0f} newly labelled triples")
    for name in (name for name in headline() if name in figures):
        low, high = figures.get(f"{name}_low"), figures.get(f"{name}_high")
        ends = "" if low is None or high is None else f"  [{low:.4f}, {high:.4f}]"
        console.print(f"{name.replace('_', ' '):<10} {figures[name]:.4f}{ends}")
    for title, name, p in (("base rate", "shift", "shift_p"), ("map", "misfit", "map_p")):
        low, high = figures[f"{name}_low"], figures[f"{name}_high"]
        console.print(
            f"{title:<10} moved by {figures[name]:.2f} [{low:.2f}, {high:.2f}] in log-odds, p = {figures[p]:.2g}"
        )
    console.print(f"{'scores':<10} stability index {figures['psi']:.3f}, p = {figures['psi_p']:.2g}")
    for line in (*(seen.findings or ("no drift found",)), *seen.notes):
        console.print(f"* {line}")
    if seen.recalibrated:
        console.print(f"recalibrated: run {seen.recalibrated}")
    elif seen.command:
        console.print(f"to do: {seen.command}")
