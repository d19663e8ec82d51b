"""`kgcal predict` and `kgcal discover`."""

from pathlib import Path
from typing import Any

import typer

from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.discovery import show_discovery
from flows.cli.tables.prediction import show_prediction
from flows.cli.terminal import check_target, console
from flows.discover import discover
from flows.predict import predict


def run_predict(**arguments: Any) -> None:
    """Predict the candidate triples, and print the answers or a summary of them."""
    if arguments["output"]:
        check_target(Path(arguments["output"]), "--output")
    show_prediction(console, start(predict, **arguments))


def run_discover(**arguments: Any) -> None:
    """Discover missing facts, and print the first of them."""
    if arguments["output"]:
        check_target(Path(arguments["output"]), "--output")
    show_discovery(console, start(discover, **arguments))


def add_predictions(app: typer.Typer) -> None:
    """Add `predict` and `discover`."""
    add_flow_command(app, predict, run_predict)
    add_flow_command(app, discover, run_discover)
