"""The commands `kgcal promote` and `kgcal watch`."""

from typing import Any

import typer

from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.watch import show_check
from flows.cli.terminal import console
from flows.promote import promote
from flows.watch import watch


def run_promote(**arguments: Any) -> None:
    """Compare challengers with champions, and print each decision with its reason."""
    for decision in start(promote, **arguments):
        console.print(decision.explanation)


def run_watch(**arguments: Any) -> None:
    """Check the champion and show the findings."""
    show_check(console, start(watch, **arguments))


def add(app: typer.Typer) -> None:
    """Add `promote` and `watch`."""
    add_flow_command(app, promote, run_promote)
    add_flow_command(app, watch, run_watch)
