"""Ensembles beside their members, in the terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from kgcore.report.ensembles import disputes, heads, title, weights, words
from kgcore.report.summary import SHOWN, best, rows
from tasks.tracking.ui import ui_command


def show_ensemble(console: Console, summary: dict[str, Any]) -> None:
    """Print members and ensembles, the best of each column with a star, and what disagreement says about error."""
    for negatives, group in summary["metrics"].items():
        console.print(f"[bold]{summary['dataset']}[/]: {len(summary['members'])} models, {words(negatives)} negatives")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("model", overflow="fold")
        for head in heads(summary):
            table.add_column(head.replace(", ", "\n"), justify="right", no_wrap=True)
        top = best({"metrics": {negatives: group}})
        for _, name, values in rows({"metrics": {negatives: group}}):
            stars = (f"{values[metric]:.4f}{'*' if values[metric] == top.get(metric) else ' '}" for metric in SHOWN)
            cells = (f"[bold green]{text}[/]" if text.endswith("*") else text for text in stars)
            table.add_row(title(summary, name), *cells, *weights(summary, negatives, name))
        console.print(table)
        for line in disputes(summary, negatives):
            console.print(line)
        console.print()
    for line in summary["notes"]:
        console.print(line)
    console.print(f"run: {summary['run']}", soft_wrap=True)
    console.print(f"MLflow: {ui_command()}", soft_wrap=True)
