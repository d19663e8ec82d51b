"""Make a command from a flow: its options, its help, and the call of the flow with or without Prefect."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from flows.cli.options import Settings, command, component_options
from flows.cli.terminal import App, guarded
from flows.flow import described
from flows.local.status import local_api
from kgcore.config import Config
from kgcore.config.calibrate import INTERVAL
from kgcore.errors import InputError
from tasks.workspace.network import answers
from tasks.workspace.prefect_api import named_api
from tasks.workspace.settings import uses_prefect

if TYPE_CHECKING:  # Prefect takes more than a second to load: only a flow run on a server needs it
    from prefect import Flow

FORCE = Annotated[bool, typer.Option("--force", help="run even if a finished run could be re-used")]
DEVICE = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N", envvar="KGCAL_DEVICE")]
JSON = Annotated[Path | None, typer.Option("--json", help="also write the results to this file")]
# Flow parameters that are not settings, by NAME or by FLOW.NAME. Their help comes from the docstring of the flow.
# A parameter that is not listed here becomes an option that takes text.
PLAIN: Mapping[str, Any] = {
    "preset": Annotated[str | None, typer.Option("--preset")],
    "ensemble": Annotated[int, typer.Option(metavar="N")],
    "other_models": Annotated[str, typer.Option(metavar="MODEL|RUN,...")],
    "force": FORCE,
    "device": DEVICE,
    "refit": Annotated[bool, typer.Option("--refit")],
    "instead": Annotated[bool, typer.Option("--instead")],
    "runs": Annotated[list[str], typer.Argument(metavar="RUN")],
    "base_rate": Annotated[float | None, typer.Option()],
    "recalibrate.base_rate": Annotated[str | None, typer.Option(metavar=INTERVAL.text)],
    "discover.base_rate": Annotated[str | None, typer.Option(metavar=INTERVAL.text)],
    "exam_share": Annotated[float, typer.Option()],
    "predict.candidates": Annotated[list[str], typer.Argument(metavar="[FILE | SUBJECT PREDICATE OBJECT]")],
    "predict.output": Annotated[str, typer.Option("--output", "-o")],
    "base-rate.candidates": Annotated[str, typer.Argument(metavar="FILE")],
    "base-rate.output": Annotated[str, typer.Option("--output", "-o")],
    "audit.output": Annotated[str, typer.Option("--output", "-o")],
    "error_rate": Annotated[float | None, typer.Option()],
    "explain.triple": Annotated[list[str], typer.Argument(metavar="SUBJECT PREDICATE OBJECT")],
    "explain.output": Annotated[str, typer.Option("--output", "-o")],
    "calibrate-scores.file": Annotated[str, typer.Argument(metavar="[FILE]")],
    "calibrate-scores.output": Annotated[str, typer.Option("--output", "-o")],
    "calibrate-scores.promote": Annotated[bool, typer.Option("--promote")],
    "calibrate-scores.recalibrate": Annotated[bool, typer.Option("--recalibrate")],
    "calibrate-scores.watch": Annotated[bool, typer.Option("--watch")],
    "import-embeddings.entity_table": Annotated[str, typer.Argument(metavar="ENTITIES")],
    "import-embeddings.relation_table": Annotated[str, typer.Argument(metavar="RELATIONS")],
    "import-pykeen.folder": Annotated[str, typer.Argument(metavar="DIR")],
    "import-pykeen.trust": Annotated[bool, typer.Option("--trust")],
    "import-libkge.checkpoint": Annotated[str, typer.Argument(metavar="FILE")],
    "import-libkge.trust": Annotated[bool, typer.Option("--trust")],
    "discover.output": Annotated[str, typer.Option("--output", "-o")],
}
PRESET_NOTE = "The defaults below apply only where the preset sets no value."


def start(function: "Flow[..., Any]", question: bool = False, **arguments: Any) -> Any:
    """Call a flow, and return its result.

    The call is a Prefect flow run: on the server that PREFECT_API_URL names, or on that of `kgcal up`, or recorded in
    KGCAL_HOME. Its parameters are only the settings that the user gave. A question is a flow run only where a server
    runs, because Prefect takes seconds. If KGCAL_PREFECT is off, nothing is.

    Raises InputError if the server that PREFECT_API_URL names does not answer.
    """
    named = named_api() if uses_prefect() else None
    if not uses_prefect() or (question and not named and not local_api()):
        return function.fn(**arguments)
    if named and not answers(f"{named.removesuffix('/')}/health"):
        raise InputError(f"the Prefect server {named} does not answer: start it, or unset PREFECT_API_URL")
    return function(**arguments)


def extra_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that the command has and its flow does not have."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def add_flow_command(
    app: typer.Typer,
    function: "Flow[..., Any]",
    run: Callable[..., None],
    extra: Sequence[inspect.Parameter] = (),
    title: str = "",
) -> None:
    """Add the command of a flow. The parameters of the flow become options; its docstring gives their help.

    app    the application, or a group of commands. If the application needs only another command, nothing is added
    run    does the work of the command; it takes the parameters of the flow and the extra ones by name
    extra  parameters of the command that the flow does not have
    title  name of the command; if empty, the name of the flow
    """
    command_name, only = title or function.name, app.only if isinstance(app, App) else ""
    if only not in ("", command_name):
        return
    settings: dict[str, Settings] = {}
    others = list(extra)
    hints, descriptions = get_type_hints(function.fn), described(function.fn)
    for name, parameter in inspect.signature(function.fn).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and issubclass(kind, Config):
            settings[name] = kind
            continue
        text = Annotated[str, typer.Option(f"--{name}")]
        annotation = PLAIN.get(f"{function.name}.{name}", PLAIN.get(name, text))
        others.append(extra_parameter(name, _with_help(annotation, descriptions[name]), parameter.default))
    help_text = (inspect.getdoc(function.fn) or "").split("\n\nArgs:")[0]
    if "preset" in hints:
        help_text += f"\n\n{PRESET_NOTE}"
    epilog = "" if only else component_options(settings.values())
    add = app.command(command_name, help=help_text, epilog=epilog)
    add(guarded(command(run, settings, others)))


def _with_help(annotation: Any, text: str) -> Any:
    """Return the annotation of an option with `text` as its help."""
    kind, option = get_args(annotation)
    option = copy.copy(option)
    option.help = " ".join(text.split())
    return Annotated[kind, option]
