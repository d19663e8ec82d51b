"""All commands: `kgcal run`, `kgcal STAGE`, `kgcal tune`, `kgcal reproduce`, `kgcal compare`, `kgcal up`, and so on."""

import inspect
import json
import signal
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from prefect import Flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.cli.options import command
from flows.cli.project import translated
from flows.cli.tables.comparison import show_comparison
from flows.cli.tables.ensemble import show_ensemble
from flows.cli.tables.results import show_look, show_results
from flows.cli.tables.tuning import show_tuning
from flows.cli.terminal import check_target, console, fail, guarded, new_app
from flows.deployment.parameters import THREADS
from flows.ensemble import ensemble
from flows.local.commands import add_local_commands
from flows.local.status import local_api
from flows.pipeline import pipeline, recalibrate
from flows.reproduce import reproduce, task_runner
from flows.stages import STAGE_FLOWS
from flows.tune import tune
from flows.upkeep import promote, watch
from kgcore.config import Config, PipelineConfigs
from kgcore.config.presets import NONE, PRESETS, tuned
from kgcore.errors import InputError
from kgcore.reproduction.grid import TABLES, grid
from tasks.jobs.compare import METRICS, NEGATIVES, comparison, write_csv
from tasks.jobs.pipeline import LATEST
from tasks.tracking.ui import serve_ui
from tasks.workspace.catalogue import catalogue
from tasks.workspace.network import answers

app: typer.Typer = new_app()

FORCE = Annotated[bool, typer.Option("--force", help="run even where a finished run could be re-used")]
DEVICE = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N", envvar="KGCAL_DEVICE")]
JSON = Annotated[Path | None, typer.Option("--json", help="write the results to this file, too")]
RUN = Annotated[str, typer.Argument(metavar="RUN", help="run to recalibrate, instead of --model")]
# the flows' parameters that are neither settings nor upstream runs
PLAIN: dict[str, Any] = {
    "force": FORCE,
    "device": DEVICE,
    "preset": Annotated[str, typer.Option(help=f"settings that are not given: {', '.join((*PRESETS, NONE))}")],
    "labels": Annotated[str, typer.Option(help="file of newly labelled triples: subject, predicate, object, 1 or -1")],
    "refit": Annotated[bool, typer.Option("--refit", help="fit the calibrators anew without new labels, too")],
    "instead": Annotated[bool, typer.Option("--instead", help="they take the place of the validation split")],
    "dataset": Annotated[str, typer.Option(help="data set that has results; promote: none = each of them")],
    "runs": Annotated[
        list[str], typer.Argument(metavar="RUN RUN ...", help="pipelines of one data set, or runs that came from them")
    ],
    "base_rate": Annotated[float | None, typer.Option(help="base rate that is stated; none = as it is")],
    "tune.base_rate": Annotated[float, typer.Option(help="base rate that is stated, where no negatives are labelled")],
    "tune.force": Annotated[bool, typer.Option("--force", help="begin the search anew")],
}


def start(function: "Flow[..., Any]", direct: bool = True, **arguments: Any) -> Any:
    """Call a flow: as a Prefect flow run where PREFECT_API_URL names a server or `kgcal up` has started one, else
    directly, starting none; or, not `direct`, with one of its own for as long as it takes."""
    named = PREFECT_API_URL.value()
    url = named or local_api()
    if not url:
        return function.fn(**arguments) if direct else function(**arguments)
    if named and not answers(f"{named.removesuffix('/')}/health"):
        raise InputError(f"the Prefect server {url} does not answer: start it, or unset PREFECT_API_URL")
    with temporary_settings(updates={PREFECT_API_URL: url}):
        return function(**arguments)


def pipeline_runner(function: "Flow[..., Any]") -> Callable[[dict[str, Any]], None]:
    """What the command of a pipeline does: run it and show its results."""

    def call(arguments: dict[str, Any]) -> None:
        target: Path | None = arguments.pop("json_path")
        if target is not None:
            check_target(target)
        context: typer.Context = arguments.pop("context")
        if run := arguments.pop("run", ""):
            if arguments["model"] != LATEST:
                raise InputError(f"the run to recalibrate is named twice: {run} and --model {arguments['model']}")
            arguments["model"] = run
        if "preset" in arguments:
            settle(arguments, context)
        summary = start(function, **arguments)
        if target is not None:
            partial = target.with_name(f".{target.name}.partial")
            partial.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
            partial.replace(target)
        show_results(console, summary)

    return call


def settle(arguments: dict[str, Any], context: typer.Context) -> None:
    """Let the preset choose the settings that the command line does not: the flow is called with all of them."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    stages = [stage.name for stage in fields(PipelineConfigs) if stage.name in arguments]
    settled = tuned(arguments["preset"], PipelineConfigs(**{name: arguments[name] for name in stages}), given)
    arguments |= {name: getattr(settled, name) for name in stages} | {"preset": NONE}


def stage_runner(function: "Flow[..., Any]") -> Callable[[dict[str, Any]], None]:
    """What the command of a single stage does: run it and print its MLflow run id."""

    def call(arguments: dict[str, Any]) -> None:
        print(start(function, **arguments))

    return call


def run_promote(arguments: dict[str, Any]) -> None:
    """The gate, and why it opened or not."""
    for decision in start(promote, **arguments):
        console.print(decision["explanation"])


def run_watch(arguments: dict[str, Any]) -> None:
    """A look at the champion."""
    show_look(console, start(watch, **arguments))


def run_tune(arguments: dict[str, Any]) -> None:
    """A search for settings; interrupted, it has found something all the same, and ends as what was interrupted."""
    settle(arguments, arguments.pop("context"))
    found = start(tune, **arguments)
    show_tuning(console, found)
    if found["interrupted"]:
        raise typer.Exit(128 + signal.SIGINT)


def run_ensemble(arguments: dict[str, Any]) -> None:
    """Ensembles beside their members."""
    show_ensemble(console, start(ensemble, **arguments))


def add_commands() -> None:
    """A command a flow (`reproduce` apart), its options made from the flow's parameters."""
    json_option = inspect.Parameter("json_path", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=JSON)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY, default="", annotation=RUN)
    flows: list[tuple[Flow[..., Any], Callable[[dict[str, Any]], None], list[inspect.Parameter]]] = [
        (pipeline, pipeline_runner(pipeline), [context, json_option]),
        (recalibrate, pipeline_runner(recalibrate), [context, json_option, run]),
        *((flow, stage_runner(flow), []) for flow in STAGE_FLOWS),
        (promote, run_promote, []),
        (watch, run_watch, []),
        (tune, run_tune, [context]),
        (ensemble, run_ensemble, []),
    ]
    for function, runner, extra in flows:
        configs: dict[str, type[Config]] = {}
        others = list(extra)
        hints = get_type_hints(function.fn)
        for name, parameter in inspect.signature(function.fn).parameters.items():
            kind = hints[name]
            if isinstance(kind, type) and issubclass(kind, Config):
                configs[name] = kind
                continue
            upstream = Annotated[
                str, typer.Option(f"--{name}", help=f"run id that has the {name}, model URI, or {LATEST}")
            ]
            others.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=parameter.default,
                    annotation=PLAIN.get(f"{function.name}.{name}", PLAIN.get(name, upstream)),
                )
            )
        title = "run" if function is pipeline else function.name
        help_text = (inspect.getdoc(function.fn) or "").split("\n\n")[0].split("; returns")[0]
        app.command(title, help=help_text)(guarded(command(runner, configs, others)))


@guarded
def reproduce_paper(
    tables: Annotated[list[str], typer.Argument(metavar="TABLES", help=f"all, or some of {', '.join(TABLES)}")],
    dataset: Annotated[list[str], typer.Option(help="data set of the paper; repeat the option for several")] = [],  # noqa: B006
    preset: Annotated[str, typer.Option(help="how models are trained: default, or paper (its protocol)")] = "default",
    runner: Annotated[
        str | None, typer.Option(help="what runs the cells: threads, threads:N, dask or dask://HOST:PORT")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="write the figures to this file as one tidy table, too")] = None,
    force: FORCE = False,
    device: DEVICE = "auto",
) -> None:
    """The paper's tables and figures beside ours; runs what is missing."""
    if csv is not None:
        check_target(csv, "--csv")
    grid(tuple(tables), tuple(dataset), preset)
    task_runner(runner or THREADS)
    arguments: dict[str, Any] = {"tables": tables, "datasets": dataset, "preset": preset, "force": force}
    arguments |= {"device": device} | {"csv": str(csv.absolute()) if csv else None}
    # a runner that is asked for by name is Prefect's, with a server of its own where none is named
    made = start(reproduce, direct=runner is None, runner=runner or THREADS, **arguments)
    for finding in made["findings"]:
        console.print(f"* {finding}")
    console.print(f"page: {made['page']}", soft_wrap=True)
    console.print(f"table: {made['csv']}", soft_wrap=True)
    if made["failures"]:
        reasons = "; ".join(f"{cell}: {reason}" for cell, reason in made["failures"].items())
        fail(f"{len(made['failures'])} of {made['succeeded'] + len(made['failures'])} runs failed: {reasons}")


@guarded
def compare(
    dataset: Annotated[
        str | None, typer.Option(help="data set, a name or a folder; without it all, a table each")
    ] = None,
    metric: Annotated[str, typer.Option(help=f"what the rows are sorted by: {', '.join(METRICS)}")] = "brier",
    negatives: Annotated[
        str | None, typer.Option(help=f"only calibrators fitted on these: {' or '.join(NEGATIVES)}")
    ] = None,
    base_rate: Annotated[float | None, typer.Option(help="only runs that stated this base rate")] = None,
    top: Annotated[int, typer.Option(help="rows of each table; 0 = all")] = 20,
    csv: Annotated[Path | None, typer.Option(help="write all rows, with every setting, to this file, too")] = None,
) -> None:
    """Every evaluated calibrator of the finished runs, the best first."""
    if top < 0:
        raise InputError(f"top is {top}: it must be at least 0")
    if csv is not None:
        check_target(csv, "--csv")
    frame = comparison(metric, dataset, negatives, base_rate)
    if csv is not None:
        write_csv(frame, csv)
    show_comparison(console, frame, metric, top)


@guarded
def datasets() -> None:
    """List the data sets: counts, source, and what is already here."""
    for entry in catalogue():
        words = ("train triples", "entities", "relations")
        known = [f"{n:,} {word}" for n, word in zip(entry.counts, words, strict=True) if n is not None]
        size = "any --size; " if entry.generated else f"{', '.join(known)}; " if known else ""
        console.print(f"[bold]{entry.name:<10}[/] {entry.title}", soft_wrap=True)
        console.print(
            f"{'':<10} {size}{'here: ' + ', '.join(entry.here) if entry.here else 'not here yet'}", soft_wrap=True
        )


@guarded
def ui(port: Annotated[int, typer.Option(help="port on 127.0.0.1", min=1024, max=65535)] = 5000) -> None:
    """Open the MLflow UI on everything that was run, until Ctrl-C."""
    serve_ui(port)


def project(entry: str, values: Annotated[list[str], typer.Argument()] = []) -> None:  # noqa: B006
    """What the entry points of MLproject call: `--name value` for each of their parameters."""
    try:
        arguments = translated(app, entry, values)
    except InputError as error:
        fail(str(error))
    app(arguments, prog_name="kgcal")


add_commands()
app.command("reproduce")(reproduce_paper)
app.command("compare")(compare)
app.command("datasets")(datasets)
app.command("ui")(ui)
add_local_commands(app)
# what comes after the entry point is left as it is, whatever it looks like
app.command("project", hidden=True, context_settings={"allow_interspersed_args": False})(project)
