"""The results of a pipeline in the terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.cli.tables.ensemble import show_ensemble
from flows.cli.tables.layout import Column, fitted_table
from flows.cli.tables.race import show_race
from kgcore.report.columns import first_table, headline, leading, title
from kgcore.report.results import Results
from kgcore.report.summary import PipelineSummary
from tasks.tracking.ui import ui_command


def show_results(console: Console, summary: PipelineSummary) -> None:
    """Print a warning if there is one, the race, the results, the ranks, where the results are, and the ensemble."""
    if summary.warning:
        console.print(summary.warning, markup=False, style="bold")
    if summary.race:
        show_race(console, summary.race)
    console.print(f"[bold]{escape(summary.model)} on {escape(summary.dataset)}[/]")
    console.print(results_table(summary.results, console.width))
    show_best(console, summary.results)
    if summary.rate and summary.rate.limits:
        console.print(f"base rate: {summary.rate}", markup=False)
    for note in summary.notes:
        console.print(note, markup=False)
    relation, ranks = summary.accuracy_per_relation, summary.ranks
    console.print(
        f"accuracy with per-relation thresholds on the score: learned on validation {relation['learned']:.4f}, "
        f"median validation score {relation['median']:.4f}"
    )
    hits = "  ".join(f"Hits@{n} {ranks[f'hits_at_{n}']:.3f}" for n in (1, 3, 10))
    console.print(f"filtered ranks by the raw score: MR {ranks['mr']:.0f}  MRR {ranks['mrr']:.3f}  {hits}")
    again = [stage for stage in summary.runs if stage not in summary.reused]
    console.print(f"stages run: {', '.join(again) or 'none'}; re-used: {', '.join(summary.reused) or 'none'}")
    console.print(f"report: {summary.report}", soft_wrap=True)
    if summary.ensemble:
        console.print()
        show_ensemble(console, summary.ensemble)
    else:
        console.print(f"MLflow: {ui_command()}", soft_wrap=True)


def results_table(results: Results, width: int) -> Table:
    """Return the metrics of the first table, with a row for each calibrator, in at most `width` characters."""
    metrics = first_table(results.confidences)
    cells = {
        "negatives": [row.negatives.replace("_", " ") or "none" for row in results.rows],
        "calibrator": [row.calibrator.replace("_", " ") for row in results.rows],
        **{name: [row.texts([name])[0] for row in results.rows] for name in metrics},
    }
    columns = {name: Column(name.replace("_", " "), numbers=name in metrics) for name in cells}
    values = results.best()
    best = {
        (name, number)
        for number, row in enumerate(results.rows)
        for name in headline()
        if row.negatives and name in row.metrics and row.metrics[name] == values[name]
    }
    return fitted_table(columns, cells, width, best=best)


def show_best(console: Console, results: Results) -> None:
    """Print the main metrics of the calibrator with the best Brier score, with their confidence intervals."""
    row = results.best_fitted()
    if row is None:
        return
    texts = []
    for name in (name for name in leading() if name in row.metrics):
        ends = row.intervals.get(name)
        texts.append(f"{title(name)} {row.metrics[name]:.4f}" + (f" [{ends[0]:.4f}, {ends[1]:.4f}]" if ends else ""))
    console.print(escape(f"best: {row.negatives} {row.calibrator}, ".replace("_", " ") + ", ".join(texts)))
