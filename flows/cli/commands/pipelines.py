"""The commands `kgcal run` and `kgcal recalibrate`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands.flow_command import JSON, add_flow_command, extra_parameter, start
from flows.cli.tables.results import show_results
from flows.cli.terminal import check_target, console
from flows.pipeline import pipeline
from flows.recalibrate import recalibrate
from kgcore.errors import InputError
from kgcore.report.summary import PipelineSummary
from tasks.jobs.manifest import LATEST

if TYPE_CHECKING:
    from prefect import Flow

RUN = Annotated[str, typer.Argument(metavar="RUN", help="run to recalibrate, instead of --model")]


def pipeline_runner(function: "Flow[..., PipelineSummary]") -> Callable[..., None]:
    """Return the work of a pipeline command: run the pipeline and show its results."""

    def call(json_path: Path | None, run: str = "", **arguments: Any) -> None:
        if json_path is not None:
            check_target(json_path)
        if run:
            if arguments["model"] != LATEST:
                raise InputError(
                    f"the run to recalibrate is named twice, {run} and --model {arguments['model']}: give one"
                )
            arguments["model"] = run
        summary: PipelineSummary = start(function, **arguments)
        if json_path is not None:
            write_results(json_path, summary)
        show_results(console, summary)

    return call


def write_results(target: Path, summary: PipelineSummary) -> None:
    """Write the results as JSON. The file appears complete or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(json.dumps(summary.to_json(), indent=1) + "\n", encoding="utf-8")
    partial.replace(target)


def add(app: typer.Typer) -> None:
    """Add `run` and `recalibrate`."""
    json_option = extra_parameter("json_path", JSON, None)
    add_flow_command(app, pipeline, pipeline_runner(pipeline), [json_option], title="run")
    run = extra_parameter("run", RUN, "")
    add_flow_command(app, recalibrate, pipeline_runner(recalibrate), [json_option, run])
