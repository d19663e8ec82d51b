"""The command `kgcal reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.commands.flow_command import DEVICE, FORCE, start
from flows.cli.terminal import check_target, console, fail, guarded
from flows.deployment.parameters import THREADS
from flows.deployment.runners import task_runner
from flows.reproduce import reproduce
from kgcore.reproduction.grid import TABLES, grid
from tasks.jobs.reproduce import Reproduction


@guarded
def reproduce_paper(
    tables: Annotated[list[str], typer.Argument(metavar="TABLES", help=f"all, or some of {', '.join(TABLES)}")],
    dataset: Annotated[list[str], typer.Option(help="data set of the paper; repeat the option for several")] = [],  # noqa: B006
    preset: Annotated[
        str, typer.Option(help="preset for training: default, best, or paper (the paper's protocol)")
    ] = "default",
    runner: Annotated[
        str | None,
        typer.Option(help="Prefect task runner for the pipelines: threads, threads:N, dask or dask://HOST:PORT"),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="also write all compared values to this file, as one table")] = None,
    force: FORCE = False,
    device: DEVICE = "auto",
) -> None:
    """Compare our results with the paper's tables; run the pipelines that are missing."""
    if csv is not None:
        check_target(csv, "--csv")
    grid(tuple(tables), tuple(dataset), preset)
    task_runner(runner or THREADS)
    made: Reproduction = start(
        reproduce,
        tables=tables,
        datasets=dataset,
        preset=preset,
        runner=runner or THREADS,
        force=force,
        device=device,
        csv=str(csv.absolute()) if csv else None,
    )
    for finding in made.findings:
        console.print(f"* {finding}")
    console.print(f"page: {made.page}", soft_wrap=True)
    console.print(f"table: {made.csv}", soft_wrap=True)
    if made.failures:
        reasons = "; ".join(f"{cell}: {reason}" for cell, reason in made.failures.items())
        fail(f"{len(made.failures)} of {made.succeeded + len(made.failures)} runs failed: {reasons}")


def add(app: typer.Typer) -> None:
    """Add `reproduce`."""
    app.command("reproduce")(reproduce_paper)
