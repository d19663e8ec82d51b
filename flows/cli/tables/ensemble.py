"""The terminal table of ensembles and their members."""

from rich import box
from rich.console import Console
from rich.table import Table

from kgcore.report.columns import first_table
from kgcore.report.ensemble_summary import EnsembleSummary, column_heads, disputes, row_title, weight_cells, words
from tasks.tracking.ui import ui_command


def show_ensemble(console: Console, summary: EnsembleSummary) -> None:
    """Print the metrics of members and ensembles, and how the disagreement of members relates to their error.

    A star marks the best value of each column.
    """
    for negatives in summary.results.negatives:
        console.print(f"[bold]{summary.dataset}[/]: {len(summary.members)} models, {words(negatives)} negatives")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("model", overflow="fold")
        for head in column_heads(summary):
            table.add_column(head.replace(", ", "\n"), justify="right", no_wrap=True)
        results = summary.results.only(negatives)
        best = results.best()
        for row in results.rows:
            values, name = row.metrics, row.calibrator
            stars = (f"{values[head]:.4f}{'*' if values[head] == best.get(head) else ' '}" for head in first_table())
            cells = (f"[bold green]{text}[/]" if text.endswith("*") else text for text in stars)
            table.add_row(row_title(summary, name), *cells, *weight_cells(summary, negatives, name))
        console.print(table)
        for line in disputes(summary, negatives):
            console.print(line)
        console.print()
    for line in summary.notes:
        console.print(line)
    console.print(f"run: {summary.run}", soft_wrap=True)
    console.print(f"MLflow: {ui_command()}", soft_wrap=True)
