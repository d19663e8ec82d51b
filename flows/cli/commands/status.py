"""The command `kgcal status`. It has a module of its own because it loads neither Prefect nor MLflow."""

import typer

from flows.cli.terminal import console, guarded
from flows.local.status import status


def run_status() -> None:
    """Show the services of `kgcal up`, and the active flow runs of the worker."""
    for line in status():
        console.print(f"{line.name:<8} {line.state:<12} {line.place}", soft_wrap=True)


def add(app: typer.Typer) -> None:
    """Add `status`."""
    app.command("status")(guarded(run_status))
