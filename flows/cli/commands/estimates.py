"""`kgcal base-rate`, `kgcal audit` and `kgcal calibrate-scores`."""

from typing import Any

import typer

from flows.audit import audit
from flows.base_rate import base_rate
from flows.calibrate_scores import calibrate_scores
from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.audit import show_audit
from flows.cli.tables.base_rate import show_base_rate
from flows.cli.tables.scores import show_scores
from flows.cli.tables.watch import show_check
from flows.cli.terminal import check_output, console


def run_base_rate(**arguments: Any) -> None:
    """Estimate the base rate of candidates, and print it with what was found about their mistakes."""
    show_base_rate(console, start(base_rate, **arguments))


def run_audit(**arguments: Any) -> None:
    """Audit the training facts, and print what was found."""
    check_output(arguments["output"])
    show_audit(console, start(audit, **arguments))


def run_calibrate_scores(**arguments: Any) -> None:
    """Calibrate scores, and print how good the probabilities are."""
    check_output(arguments["output"])
    found = start(calibrate_scores, **arguments)
    show_check(console, found) if arguments["watch"] else show_scores(console, found)


def add(app: typer.Typer) -> None:
    """Add `base-rate`, `audit` and `calibrate-scores`."""
    add_flow_command(app, base_rate, run_base_rate)
    add_flow_command(app, audit, run_audit)
    add_flow_command(app, calibrate_scores, run_calibrate_scores)
