"""`kgcal predict`, `kgcal discover` and `kgcal explain`: questions, which load as little as they can."""

from typing import Any

import typer

from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.discovery import show_discovery
from flows.cli.tables.explanation import show_explanation
from flows.cli.tables.prediction import show_prediction
from flows.cli.terminal import check_output, console
from flows.discover import discover
from flows.explain import explain
from flows.predict import predict


def run_predict(**arguments: Any) -> None:
    """Predict the candidate triples, and print the answers or a summary of them."""
    check_output(arguments["output"])
    show_prediction(console, start(predict, question=True, **arguments))


def run_discover(**arguments: Any) -> None:
    """Discover missing facts, and print the first of them."""
    check_output(arguments["output"])
    show_discovery(console, start(discover, question=True, **arguments))


def run_explain(**arguments: Any) -> None:
    """Explain the probability of a triple, and print the explanation."""
    check_output(arguments["output"])
    show_explanation(console, start(explain, question=True, **arguments))


def add(app: typer.Typer) -> None:
    """Add `predict`, `discover` and `explain`."""
    add_flow_command(app, predict, run_predict)
    add_flow_command(app, discover, run_discover)
    add_flow_command(app, explain, run_explain)
