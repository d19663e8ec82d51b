"""The commands `kgcal compare` and `kgcal datasets`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from flows.cli.terminal import check_target, console, guarded, show
from kgcore.errors import InputError
from tasks.jobs.compare import NEGATIVES, SORTABLE_METRICS, comparison, shown_comparison, write_csv
from tasks.workspace.settings import catalogue


@guarded()
def compare(
    dataset: Annotated[
        str | None, typer.Option(help="data set, a name or a folder; without it, one table per data set")
    ] = None,
    metric: Annotated[str, typer.Option(help=f"metric to sort by: {', '.join(SORTABLE_METRICS)}")] = "brier",
    negatives: Annotated[
        str | None, typer.Option(help=f"only calibrators fitted on these negatives: {' or '.join(NEGATIVES)}")
    ] = None,
    base_rate: Annotated[float | None, typer.Option(help="only runs with this base rate, stated or assumed")] = None,
    top: Annotated[int, typer.Option(help="rows of each table; 0 = all")] = 20,
    csv: Annotated[Path | None, typer.Option(help="also write all rows, with every setting, to this file")] = None,
) -> None:
    """Compare the evaluated calibrators of all finished runs, best first."""
    if top < 0:
        raise InputError(f"top is {top}: it must be at least 0")
    if csv is not None:
        check_target(csv, "--csv")
    frame = comparison(metric, dataset, negatives, base_rate)
    if csv is not None:
        write_csv(frame, csv)
    show(console, shown_comparison(frame, metric, top))


@guarded()
def datasets() -> None:
    """List the data sets: sizes, source, and what is already on this machine."""
    for spec, here in catalogue():
        counts = spec.counts.train_rows, spec.counts.entities, spec.counts.predicates
        words = ("train triples", "entities", "relations")
        known = [f"{n:,} {word}" for n, word in zip(counts, words, strict=True) if n is not None]
        size = "any --size; " if spec.generate else f"{', '.join(known)}; " if known else ""
        console.print(Text(f"{spec.name:<10}", "bold"), spec.title, soft_wrap=True)
        console.print(
            f"{'':<10} {size}{'on this machine: ' + ', '.join(here) if here else 'not on this machine'}", soft_wrap=True
        )


def add(app: typer.Typer) -> None:
    """Add `compare` and `datasets`."""
    app.command("compare")(compare)
    app.command("datasets")(datasets)
