"""The commands `kgcal tune` and `kgcal ensemble`."""

import signal
from typing import Any

import typer

from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.ensemble import show_ensemble
from flows.cli.tables.tuning import show_tuning
from flows.cli.terminal import console
from flows.ensemble import ensemble
from flows.tune import tune


def run_tune(**arguments: Any) -> None:
    """Search for settings, and show the result.

    After an interrupt, the search shows its best result so far, and the command exits with 128 + SIGINT.
    """
    found = start(tune, **arguments)
    show_tuning(console, found)
    if found.interrupted:
        raise typer.Exit(128 + signal.SIGINT)


def run_ensemble(**arguments: Any) -> None:
    """Build ensembles, and show them with their members."""
    show_ensemble(console, start(ensemble, **arguments))


def add(app: typer.Typer) -> None:
    """Add `tune` and `ensemble`."""
    add_flow_command(app, tune, run_tune)
    add_flow_command(app, ensemble, run_ensemble)
