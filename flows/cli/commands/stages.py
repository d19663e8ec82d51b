"""One command per stage: `kgcal prepare`, `kgcal train` and so on."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands.flow_command import add_flow_command, extra_parameter, start
from flows.stages import STAGE_FLOWS
from kgcore.config import PrepareConfig
from kgcore.errors import InputError
from tasks.stages.prepare import PREPARE

if TYPE_CHECKING:
    from prefect import Flow

PATHS = Annotated[list[str] | None, typer.Argument(metavar="[PATH]...", help="folder or files, instead of --dataset")]


def stage_runner(function: "Flow[..., Any]") -> Callable[..., None]:
    """Return the work of a stage command: run the stage and print its MLflow run id."""

    def call(paths: Sequence[str] | None = None, **arguments: Any) -> None:
        if paths:
            arguments["config"] = with_paths(arguments["config"], paths)
        print(start(function, **arguments))

    return call


def with_paths(config: PrepareConfig, paths: Sequence[str]) -> PrepareConfig:
    """Return the settings with these files as the data set. Raises InputError if --dataset names another one."""
    if config.dataset != PrepareConfig().dataset:
        raise InputError(f"the data set is named twice, {', '.join(paths)} and --dataset {config.dataset}: give one")
    return config.replace(dataset=",".join(paths))


def add(app: typer.Typer) -> None:
    """Add a command for each stage, in the order of the pipeline."""
    for function in STAGE_FLOWS:
        extra = [extra_parameter("paths", PATHS, None)] if function.name == PREPARE.name else []
        add_flow_command(app, function, stage_runner(function), extra)
