"""Make a command from a job: its options, its help, the call of its flow with or without Prefect, and its output."""

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from flows.cli.options import Settings, command, component_options
from flows.cli.printer import show
from flows.cli.terminal import CommandGroup, check_target, console, fail, guarded
from flows.deployment.publish import result_of
from flows.job import Argument, Instead, Job, Option, jobs_of
from flows.local.status import local_api
from kgcore.config import Config
from kgcore.config.calibrate import INTERVAL
from kgcore.errors import InputError
from tasks.workspace.flow_run import named_api
from tasks.workspace.services import answers
from tasks.workspace.settings import uses_prefect

JSON = Annotated[Path | None, typer.Option("--json", help="also write the results to this file")]
FILES = ("output", "csv")  # parameters of flows that name a file to write
PRESET_NOTE = "The defaults below apply only where the preset sets no value."


def start(job: Job, arguments: Mapping[str, Any]) -> Any:
    """Call the flow of a job, and return its result.

    The call is a Prefect flow run: on the server that PREFECT_API_URL names, or on that of `kgcal up`, or recorded in
    KGCAL_HOME. Its parameters are only the settings that the user gave. A question is a flow run only where a server
    runs, because Prefect takes seconds. If KGCAL_PREFECT is off, nothing is.

    Raises InputError if the server that PREFECT_API_URL names does not answer.
    """
    named = named_api() if uses_prefect() else None
    if not uses_prefect() or (job.question and not named and not local_api()):
        return job.fn(**arguments)
    if named and not answers(f"{named.removesuffix('/')}/health"):
        raise InputError(f"the Prefect server {named} does not answer: start it, or unset PREFECT_API_URL")
    return job.flow(**arguments)


def add_jobs(app: typer.Typer, module: str) -> None:
    """Add the commands of the jobs that a module declares."""
    for job in jobs_of(module):
        _add_job(app, job)


def _add_job(app: typer.Typer, job: Job) -> None:
    hints, descriptions = get_type_hints(job.fn), _described(job.fn)
    parameters = inspect.signature(job.fn).parameters
    prints_id = hints["return"] is str
    settings: dict[str, Settings] = {}
    others = [] if prints_id else [_parameter("json_path", JSON, None)]
    for name, parameter in parameters.items():
        if isinstance(hints[name], type) and issubclass(hints[name], Config):
            settings[name] = hints[name]
        else:
            others.append(_plain(job, parameter, hints[name], descriptions[name]))
    help_text = (inspect.getdoc(job.fn) or "").split("\n\nArgs:")[0]
    if "preset" in hints and settings:
        help_text += f"\n\n{PRESET_NOTE}"
    *groups, name = job.command
    group = _group(app, groups[0]) if groups else app
    epilog = component_options(settings.values())
    call = command(_runner(job), settings, others)
    if job.instead:
        call = _replaced(call, job.instead, parameters)
    group.command(name, help=help_text, epilog=epilog)(guarded(call))


def _group(app: typer.Typer, name: str) -> typer.Typer:
    """Return the group of commands with this name. Add it if the application lacks it."""
    for known in app.registered_groups:
        if known.name == name and known.typer_instance:
            return known.typer_instance
    group = typer.Typer(
        cls=CommandGroup, rich_markup_mode=None, no_args_is_help=True, help="Import a model of another library."
    )
    app.add_typer(group, name=name)
    return group


def _runner(job: Job) -> Callable[..., None]:
    """Return the work of a command: call the flow, print its result and, with --json, write it to a file."""

    def run(json_path: Path | None = None, **arguments: Any) -> None:
        targets = {"json": json_path, **{name: arguments.get(name) for name in FILES}}
        for name, path in targets.items():
            if path:
                check_target(Path(path), f"--{name}")
        found = start(job, arguments)
        if isinstance(found, str):  # the id of an MLflow run, for the next command
            print(found)
            return
        result = result_of(found)
        if json_path is not None:
            _write(json_path, result.to_json())
        show(console, result)
        if result.failure:
            fail(result.failure)
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    return run


def _write(target: Path, facts: Mapping[str, Any]) -> None:
    """Write a result as JSON. The file appears complete or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(json.dumps(facts, indent=1, default=str) + "\n", encoding="utf-8")
    partial.replace(target)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _described(function: Callable[..., Any]) -> dict[str, str]:
    """Return parameter -> its description in the section `Args:` of a docstring, read as Prefect reads it."""
    from griffe import Docstring

    sections = Docstring(inspect.getdoc(function) or "").parse("google", warnings=False)
    return {item.name: item.description for part in sections if part.kind.value == "parameters" for item in part.value}


def _plain(job: Job, parameter: inspect.Parameter, kind: Any, text: str) -> inspect.Parameter:
    """Return the parameter of a command for a parameter of the flow that is no settings. The kind decides its form."""
    name, shown, default = parameter.name, job.shown.get(parameter.name), parameter.default
    kinds = get_args(kind)
    metavar = INTERVAL.text if {float, str} <= set(kinds) else None
    if get_origin(kind) is not list and str in kinds:
        kind = str | None
    help_text = " ".join(text.split())
    if isinstance(shown, Argument):
        argument = typer.Argument(metavar=shown.metavar, help=help_text)
        return _parameter(name, Annotated[kind, argument], inspect.Parameter.empty if shown.required else default)
    option = shown or Option()
    flags = [option.name or f"--{name.replace('_', '-')}", *(["-o"] if name == "output" else [])]
    variable = "KGCAL_DEVICE" if name == "device" else None
    found = typer.Option(*flags, help=help_text, metavar=option.metavar or metavar, envvar=variable)
    return _parameter(name, Annotated[kind, found], default)


def _instead(instead: Instead) -> inspect.Parameter:
    argument = typer.Argument(metavar=instead.metavar, help=instead.help)
    if instead.several:
        return _parameter(instead.name, Annotated[list[str] | None, argument], None)
    return _parameter(instead.name, Annotated[str, argument], "")


def _replaced(
    call: Callable[..., None], instead: Instead, parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., None]:
    """Return the function with the argument in place of the option that it stands for."""
    default = parameters[instead.option].default if instead.option in parameters else None

    def replaced(**values: Any) -> None:
        if given := values.pop(instead.name):
            words, option = given if instead.several else [given], values[instead.option]
            if option != default:
                text = f"{', '.join(words)} and --{instead.option} {option}"
                raise InputError(f"{instead.what} is named twice, {text}: give one")
            values[instead.option] = ",".join(words)
        call(**values)

    extra = _instead(instead)
    signature = inspect.signature(call)
    replaced.__signature__ = signature.replace(parameters=[extra, *signature.parameters.values()])  # type: ignore[attr-defined]
    replaced.__annotations__ = call.__annotations__ | {extra.name: extra.annotation}
    return replaced
