"""Ensembles beside their members, as a person sees them: in the terminal, and in Markdown."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from kgcore.report.summary import SHOWN, best, rows, texts
from tasks.ui import ui_command


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


def ensemble_markdown(summary: dict[str, Any]) -> str:
    """The same in Markdown, and the calibrate run of every member."""
    columns = ["negatives", "model", *heads(summary)]
    lines = [f"| {' | '.join(columns)} |", "|---|---|" + "---|" * len(heads(summary))]
    for negatives, name, values in rows(summary):
        cells = texts(values) + weights(summary, negatives, name)
        lines.append(f"| {' | '.join([words(negatives), title(summary, name), *cells])} |")
    lines.append("")
    for negatives in summary["metrics"]:
        lines += [f"* {words(negatives)}, {line}" for line in disputes(summary, negatives)]
    members = ", ".join(f"{member['name']} `{member['calibrate']}`" for member in summary["members"])
    return "\n".join([*lines, "", f"Members: {members}"])


def heads(summary: dict[str, Any]) -> list[str]:
    """The columns with numbers: metrics, and the weights in each pool."""
    return [words(metric) for metric in SHOWN] + [f"{words(pool)}, weight" for pool in summary["pools"]]


def title(summary: dict[str, Any], name: str) -> str:
    """A row's name: of a member as it is, of an ensemble by its pool."""
    return f"ensemble, {words(name)}" if name in summary["pools"] else name


def weights(summary: dict[str, Any], negatives: str, name: str) -> list[str]:
    """The weight of a member in each pool; nothing for an ensemble."""
    pools = [summary["ensembles"][f"{negatives}.{pool}"]["weights"] for pool in summary["pools"]]
    return [f"{weight[name]:.3f}" if name in weight else "" for weight in pools]


def disputes(summary: dict[str, Any], negatives: str) -> list[str]:
    """A sentence for each ensemble on its members' disagreement and its error."""
    return [
        f"{words(pool)}: members disagree by {told['disagreement']:.4f} nats; Brier score "
        f"{told['brier_agreed']:.4f} on the half they agree on most, {told['brier_disputed']:.4f} on the other"
        for pool in summary["pools"]
        for told in (summary["ensembles"][f"{negatives}.{pool}"],)
    ]


def words(name: str) -> str:
    """A name without its underscores; log-odds as it is written."""
    return name.replace("log_odds", "log-odds").replace("_", " ")
