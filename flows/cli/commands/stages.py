"""One command per stage: `kgcal prepare`, `kgcal train` and so on."""

from collections.abc import Callable
from typing import Any

import typer
from prefect import Flow

from flows.cli.commands.flow_command import add_flow_command, start
from flows.stages import STAGE_FLOWS


def stage_runner(function: "Flow[..., Any]") -> Callable[..., None]:
    """Return the work of a stage command: run the stage and print its MLflow run id."""

    def call(**arguments: Any) -> None:
        print(start(function, **arguments))

    return call


def add_stages(app: typer.Typer) -> None:
    """Add a command for each stage, in the order of the pipeline."""
    for function in STAGE_FLOWS:
        add_flow_command(app, function, stage_runner(function))
