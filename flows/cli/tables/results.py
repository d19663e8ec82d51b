"""The results as a person sees them at the end of a run."""

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kgcore.report.summary import METRICS, SHOWN, best, interval, rows, texts, word
from tasks.tracking.ui import ui_command


def show_results(console: Console, summary: dict[str, Any]) -> None:
    """Print table, re-use, report, and how to open MLflow on them."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("negatives", "calibrator"):
        table.add_column(name)
    for name in SHOWN:
        table.add_column(name.replace("_", " "), justify="right")
    top = best(summary)
    for negatives, calibrator, values in rows(summary):
        good = {name for name in METRICS if negatives and values[name] == top[name]}
        told = zip(SHOWN, texts(values), strict=True)
        cells = [f"[bold green]{text}[/]" if name in good else text for name, text in told]
        table.add_row(negatives.replace("_", " "), calibrator.replace("_", " "), *cells)
    console.print(f"[bold]{escape(summary['model'])} on {escape(summary['dataset'])}[/]")
    console.print(table)
    _show_best(console, summary)
    for note in summary["notes"]:
        console.print(note)
    relation, ranks = summary["accuracy_per_relation"], summary["ranks"]
    console.print(
        f"accuracy with a threshold per relation: learned {relation['learned']:.4f}, median {relation['median']:.4f}"
    )
    hits = "  ".join(f"Hits@{n} {ranks[f'hits_at_{n}']:.3f}" for n in (1, 3, 10))
    console.print(f"filtered ranks: MR {ranks['mr']:.0f}  MRR {ranks['mrr']:.3f}  {hits}")
    again = [stage for stage in summary["runs"] if stage not in summary["reused"]]
    console.print(f"stages run: {', '.join(again) or 'none'}; re-used: {', '.join(summary['reused']) or 'none'}")
    console.print(f"report: {summary['report']}", soft_wrap=True)
    console.print(f"MLflow: {ui_command()}", soft_wrap=True)


def _show_best(console: Console, summary: dict[str, Any]) -> None:
    """A line on the calibrator with the best Brier score: what it is good for, with intervals."""
    fitted = [row for row in rows(summary) if row[0]]
    if not fitted:
        return
    negatives, calibrator, values = min(fitted, key=lambda row: row[2]["brier"])
    told = []
    for name in ("brier", "smooth_ece", "auroc"):
        if name in values:
            # that of smooth ECE says how it varies, not where the truth is (docs/decisions/0006-metrics.md)
            ends = interval(summary, negatives, calibrator, name) if name != "smooth_ece" else None
            told.append(f"{word(name)} {values[name]:.4f}" + (f" [{ends[0]:.4f}, {ends[1]:.4f}]" if ends else ""))
    console.print(escape(f"best: {negatives} {calibrator}, ".replace("_", " ") + ", ".join(told)))
