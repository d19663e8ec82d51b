"""`kgcal predict`, `kgcal base-rate`, `kgcal discover`, `kgcal explain`, `kgcal audit` and `kgcal calibrate-scores`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from flows.audit import audit
from flows.base_rate import base_rate
from flows.calibrate_scores import calibrate_scores
from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.audit import show_audit
from flows.cli.tables.base_rate import show_base_rate
from flows.cli.tables.discovery import show_discovery
from flows.cli.tables.explanation import show_explanation
from flows.cli.tables.prediction import show_prediction
from flows.cli.tables.scores import show_scores
from flows.cli.tables.watch import show_check
from flows.cli.terminal import check_target, console
from flows.discover import discover
from flows.explain import explain
from flows.predict import predict


def run_predict(**arguments: Any) -> None:
    """Predict the candidate triples, and print the answers or a summary of them."""
    _check_output(arguments)
    show_prediction(console, start(predict, **arguments))


def run_base_rate(**arguments: Any) -> None:
    """Estimate the base rate of candidates, and print it with what was found about their mistakes."""
    show_base_rate(console, start(base_rate, **arguments))


def run_discover(**arguments: Any) -> None:
    """Discover missing facts, and print the first of them."""
    _check_output(arguments)
    show_discovery(console, start(discover, **arguments))


def run_explain(**arguments: Any) -> None:
    """Explain the probability of a triple, and print the explanation."""
    _check_output(arguments)
    show_explanation(console, start(explain, **arguments))


def run_audit(**arguments: Any) -> None:
    """Audit the training facts, and print what was found."""
    _check_output(arguments)
    show_audit(console, start(audit, **arguments))


def run_calibrate_scores(**arguments: Any) -> None:
    """Calibrate scores, and print how good the probabilities are."""
    _check_output(arguments)
    found = start(calibrate_scores, **arguments)
    show_check(console, found) if arguments["watch"] else show_scores(console, found)


def _check_output(arguments: Mapping[str, Any]) -> None:
    """Raise InputError if the output file cannot be written."""
    if arguments["output"]:
        check_target(Path(arguments["output"]), "--output")


def add(app: typer.Typer) -> None:
    """Add `predict`, `base-rate`, `discover`, `explain`, `audit` and `calibrate-scores`."""
    add_flow_command(app, predict, run_predict)
    add_flow_command(app, base_rate, run_base_rate)
    add_flow_command(app, discover, run_discover)
    add_flow_command(app, explain, run_explain)
    add_flow_command(app, audit, run_audit)
    add_flow_command(app, calibrate_scores, run_calibrate_scores)
