"""A look at a champion, in the terminal."""

from rich.console import Console

from kgcore.report.columns import headline
from tasks.jobs.watch import Seen


def show_look(console: Console, seen: Seen) -> None:
    """Print what a look at a champion found."""
    figures = seen.metrics
    console.print(f"look {seen.number} at {seen.model}: {figures['triples']:,.0f} newly labelled triples")
    for name in (name for name in headline() if name in figures):
        low, high = figures[f"{name}_low"], figures[f"{name}_high"]
        console.print(f"{name.replace('_', ' '):<10} {figures[name]:.4f}  [{low:.4f}, {high:.4f}]")
    console.print(
        f"p of calibration {figures['calibration_p']:.2g}; stability index of the scores {figures['psi']:.3f}"
    )
    for finding in seen.findings or ("it fits",):
        console.print(f"* {finding}")
    if seen.recalibrated:
        console.print(f"recalibrated: run {seen.recalibrated}")
