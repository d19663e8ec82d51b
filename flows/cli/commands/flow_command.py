"""How a flow becomes a command: its options, its help, and calling it with Prefect or without."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from prefect import Flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.cli.options import Settings, command, component_options
from flows.cli.terminal import guarded
from flows.local.status import local_api
from kgcore.config import Config, Given
from kgcore.config.presets import NONE, PRESETS
from kgcore.errors import InputError
from tasks.jobs.manifest import LATEST
from tasks.workspace.network import answers

FORCE = Annotated[bool, typer.Option("--force", help="run even if a finished run could be re-used")]
DEVICE = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N", envvar="KGCAL_DEVICE")]
JSON = Annotated[Path | None, typer.Option("--json", help="also write the results to this file")]
# Parameters of the flows that are neither settings nor upstream runs, by name or by FLOW.NAME
PLAIN: Mapping[str, Any] = {
    "force": FORCE,
    "device": DEVICE,
    "preset": Annotated[
        str, typer.Option(help=f"values for settings that are not given: {', '.join((*PRESETS, NONE))}")
    ],
    "labels": Annotated[str, typer.Option(help="file of newly labelled triples: subject, predicate, object, 1 or -1")],
    "refit": Annotated[bool, typer.Option("--refit", help="fit the calibrators again even without new labels")],
    "instead": Annotated[bool, typer.Option("--instead", help="replace the validation split by the labelled triples")],
    "dataset": Annotated[str, typer.Option(help="data set that has a champion")],
    "promote.dataset": Annotated[str, typer.Option(help="data set that has results; without it, every one")],
    "runs": Annotated[
        list[str], typer.Argument(metavar="RUN RUN ...", help="pipelines of one data set, or runs that came from them")
    ],
    "base_rate": Annotated[float | None, typer.Option(help="stated base rate; without it, that of the named run")],
    "promote.base_rate": Annotated[float | None, typer.Option(help="only runs that stated this base rate")],
    "tune.base_rate": Annotated[float, typer.Option(help="stated base rate, used if no negatives are labelled")],
    "tune.force": Annotated[bool, typer.Option("--force", help="start the search from scratch")],
}
PRESET_NOTE = (
    "A setting that is not given has the value of the preset, if the preset has one for the data set, model and loss; "
    "otherwise it has the default shown here."
)


def start(function: "Flow[..., Any]", direct: bool = True, **arguments: Any) -> Any:
    """Call a flow, and return its result.

    With PREFECT_API_URL, or a server of `kgcal up`, it is a Prefect flow run there, whose parameters are the given
    settings only. Without a server, the function is called directly; if `direct` is false, Prefect starts a temporary
    server. Raises InputError if the server that PREFECT_API_URL names does not answer.
    """
    named = PREFECT_API_URL.value()
    url = named or local_api()
    if not url and direct:
        return function.fn(**arguments)
    arguments = {name: value.given() if isinstance(value, Given) else value for name, value in arguments.items()}
    if not url:
        return function(**arguments)
    if named and not answers(f"{named.removesuffix('/')}/health"):
        raise InputError(f"the Prefect server {url} does not answer: start it, or unset PREFECT_API_URL")
    with temporary_settings(updates={PREFECT_API_URL: url}):
        return function(**arguments)


def extra_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """A parameter of a command that its flow does not have."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def add_flow_command(
    app: typer.Typer,
    function: "Flow[..., Any]",
    run: Callable[..., None],
    extra: Sequence[inspect.Parameter] = (),
    title: str = "",
) -> None:
    """Add the command of a flow: its options come from the parameters of the flow, its help from the docstring.

    run    does the work of the command; it takes the parameters of the flow and the extra ones by name
    extra  parameters of the command that the flow does not have
    title  name of the command, if it is not that of the flow
    """
    settings: dict[str, Settings] = {}
    others = list(extra)
    hints = get_type_hints(function.fn)
    for name, parameter in inspect.signature(function.fn).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and issubclass(kind, Config | Given):
            settings[name] = kind
            continue
        upstream = Annotated[str, typer.Option(f"--{name}", help=f"run id of the {name}, model URI, or {LATEST}")]
        annotation = PLAIN.get(f"{function.name}.{name}", PLAIN.get(name, upstream))
        others.append(extra_parameter(name, annotation, parameter.default))
    help_text = (inspect.getdoc(function.fn) or "").split("\n\n")[0].split("; returns")[0].rstrip(".") + "."
    if "preset" in hints:
        help_text += f"\n\n{PRESET_NOTE}"
    add = app.command(title or function.name, help=help_text, epilog=component_options(settings.values()))
    add(guarded(command(run, settings, others)))
