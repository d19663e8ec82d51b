"""Make a command from a job: its options, its help, the call of its flow with or without Prefect, and its output.

Each setting in kgcore/config is an option with the same name, type, default, range and description.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from flows.cli.terminal import CommandGroup, check_target, console, fail, guarded, show
from flows.job import Argument, Instead, Job, Option, jobs_of, result_of
from flows.local.status import local_api
from kgcore.config import Config, describe
from kgcore.config.base import Metavar, choices_of, options_of, value_text
from kgcore.config.calibrate import INTERVAL
from kgcore.errors import InputError
from tasks.workspace.flow_run import named_api
from tasks.workspace.services import answers
from tasks.workspace.settings import uses_prefect

JSON = Annotated[Path | None, typer.Option("--json", help="also write the results to this file")]
FILES = ("output", "csv")  # parameters of flows that name a file to write
PRESET_NOTE = "The defaults below apply only where the preset sets no value."
Settings = type[Config]


class GroupedCommand(TyperCommand):
    """A command whose help shows its advanced options last, in a section for each stage."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the usual options as Typer does, and then the sections of the advanced ones."""
        whole, self.params = self.params, [option for option in self.params if not section_of(option)]
        super().format_options(ctx, formatter)
        self.params = whole
        for title in dict.fromkeys(filter(None, map(section_of, whole))):
            with formatter.section(title):
                formatter.write_dl([option.get_help_record(ctx) for option in whole if section_of(option) == title])


def section_of(option: Any) -> str | None:
    """Return the title of the section of an advanced option; None for a usual option or an argument."""
    return getattr(option, "rich_help_panel", None)


def add_jobs(app: typer.Typer, module: str) -> None:
    """Add the commands of the jobs that a module declares."""
    for job in jobs_of(module):
        settings = settings_of(job)
        help_text = (inspect.getdoc(job.fn) or "").split("\n\nArgs:")[0]
        if settings and "preset" in inspect.signature(job.fn).parameters:
            help_text += f"\n\n{PRESET_NOTE}"
        *groups, name = job.command
        group = _group(app, groups[0]) if groups else app
        epilog = _component_options(settings.values())
        group.command(name, cls=GroupedCommand, help=help_text, epilog=epilog)(command(job))


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


def command(job: Job) -> Callable[..., None]:
    """Return the command of a job, for Typer. It has an option for each setting and each other parameter of the flow.

    The command calls the flow, prints its result and, with --json, writes it to a file. The flow gets only the settings
    on the command line: the option of another setting is None.
    """
    settings, parameters = settings_of(job), inspect.signature(job.fn).parameters
    plain = [name for name in parameters if name not in settings]

    def call(**values: Any) -> None:
        with guarded():
            if job.instead:
                _put_in_place(job.instead, values, parameters)
            arguments = {name: values[name] for name in plain}
            for name, kind in settings.items():
                given = {key: values[key] for key in kind.model_fields if values[key] is not None}
                arguments[name] = kind(**{key: _value(key, kind.model_fields[key], given[key]) for key in given})
            json_path = values.get("json_path")
            targets = {"json": json_path, **{name: arguments.get(name) for name in FILES}}
            for name, path in targets.items():
                if path:
                    check_target(Path(path), f"--{name}", list(values.values()))
            _show(_flow_or_function(job)(**arguments), json_path)

    signature = inspect.Signature(_parameters(job, settings))
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return call


def _flow_or_function(job: Job) -> Callable[..., Any]:
    """Return what the command of a job calls: its flow or, without Prefect, its function.

    The call of a flow is a flow run: on the server that PREFECT_API_URL names, or on that of `kgcal up`, or recorded in
    KGCAL_HOME. Its parameters are only the settings that the user gave. A question is a flow run only where a server
    runs, because Prefect takes seconds. If KGCAL_PREFECT is off, nothing is.

    Raises InputError if the server that PREFECT_API_URL names does not answer.
    """
    named = named_api() if uses_prefect() else None
    if not uses_prefect() or (job.question and not named and not local_api()):
        return job.fn
    if named and not answers(f"{named.removesuffix('/')}/health"):
        raise InputError(f"the Prefect server {named} does not answer: start it, or unset PREFECT_API_URL")
    return job.flow


def _show(value: Any, json_path: Path | None) -> None:
    """Print what a job returns, write it as JSON if a file is named, and exit with its code."""
    if isinstance(value, str):  # the id of an MLflow run, for the next command
        print(value)
        return
    result = result_of(value)
    if json_path is not None:
        from kgcore.outputs import whole_file

        with whole_file(json_path) as partial:
            partial.write_text(json.dumps(result.to_json(), indent=1, default=str) + "\n", encoding="utf-8")
    show(console, result)
    if result.failure:
        fail(result.failure)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def settings_of(job: Job) -> dict[str, Settings]:
    """Return the parameters of a flow that are settings, with their classes."""
    hints = get_type_hints(job.fn)
    names = [name for name in inspect.signature(job.fn).parameters if isinstance(hints[name], type)]
    return {name: hints[name] for name in names if issubclass(hints[name], Config)}


def _parameters(job: Job, settings: Mapping[str, Settings]) -> list[inspect.Parameter]:
    """Return the parameters of a command: its arguments, its options, and one option for each setting."""
    hints, descriptions, parameters = get_type_hints(job.fn), _described(job.fn), []
    if job.instead:
        argument = typer.Argument(metavar=job.instead.metavar, help=job.instead.help)
        taken: Any = list[str] | None if job.instead.several else str
        default = None if job.instead.several else ""
        parameters.append(_parameter(job.instead.name, Annotated[taken, argument], default))
    if hints["return"] is not str:
        parameters.append(_parameter("json_path", JSON, None))
    for name, parameter in inspect.signature(job.fn).parameters.items():
        if name not in settings:
            parameters.append(_plain(parameter, hints[name], job.shown.get(name), descriptions[name]))
    for kind in settings.values():
        parameters += [_parameter(name, _annotation(kind, name), None) for name in kind.model_fields]
    return parameters


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _described(function: Callable[..., Any]) -> dict[str, str]:
    """Return parameter -> its description in the section `Args:` of a docstring, read as Prefect reads it."""
    from griffe import Docstring

    sections = Docstring(inspect.getdoc(function) or "").parse("google", warnings=False)
    return {item.name: item.description for part in sections if part.kind.value == "parameters" for item in part.value}


def _plain(parameter: inspect.Parameter, kind: Any, shown: Argument | Option | None, text: str) -> inspect.Parameter:
    """Return the parameter of a command for a parameter of the flow that is no settings. The kind decides its form."""
    name, default, kinds = parameter.name, parameter.default, get_args(kind)
    metavar = INTERVAL.text if {float, str} <= set(kinds) else None
    if get_origin(kind) is not list and str in kinds:
        kind = str | None
    help_text = " ".join(text.split())
    if isinstance(shown, Argument):
        argument = typer.Argument(metavar=shown.metavar, help=help_text)
        return _parameter(name, Annotated[kind, argument], inspect.Parameter.empty if shown.required else default)
    option = shown or Option()
    flags = [option.name or option_name(name), *(["-o"] if name == "output" else [])]
    variable = "KGCAL_DEVICE" if name == "device" else None
    shown_option = typer.Option(*flags, help=help_text, metavar=option.metavar or metavar, envvar=variable)
    return _parameter(name, Annotated[kind, shown_option], default)


def _put_in_place(
    instead: Instead, values: MutableMapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> None:
    """Give the value of the argument to the option that it stands for. Raises InputError if both are given."""
    if given := values.pop(instead.name):
        words, option = given if instead.several else [given], values[instead.option]
        if option != (parameters[instead.option].default if instead.option in parameters else None):
            text = f"{', '.join(words)} and --{instead.option} {option}"
            raise InputError(f"{instead.what} is named twice, {text}: give one")
        values[instead.option] = ",".join(words)


def _component_options(settings: Iterable[Settings]) -> str:
    """Return a text for the end of a command's help: the options of each model and loss with their defaults.

    The text has one line per component.
    """
    text = ""
    for setting, registry in (item for kind in settings for item in options_of(kind).items()):
        components = {name: registry.options(name) for name in registry.names()}
        width = max(map(len, components))
        lines = [
            f"  {name:<{width}}  {', '.join(f'{option}={value.lower()}' for option, value in options.items())}"
            for name, options in components.items()
            if options
        ]
        text += (
            "\b\n" + "\n".join([f"{option_name(setting)} for each {registry.kind}, with defaults:", *lines]) + "\n\n"
        )
    return text


def _annotation(settings: Settings, name: str) -> Any:
    """Return the annotation of an option for Typer: its type, its help, and the setting that it is made from."""
    item = settings.model_fields[name]
    kind: Any = item.annotation
    help_text = describe(item)
    metavar = next((mark.text for mark in item.metadata if isinstance(mark, Metavar)), None)
    if metavar:
        kind = str
    elif get_origin(kind) in (tuple, dict):
        kind, metavar = list[str], _form(item)
        help_text += "; separate several by commas"
    elif optional := get_args(kind):
        kind = optional[0]
    if name in options_of(settings):
        help_text += "; see the list below"
    help_text += f"  [default: {value_text(item.default)}]" if item.default != "" else ""
    names = [f"{option_name(name)}/--no-{option_name(name)[2:]}"] if kind is bool else [option_name(name)]
    panel = f"Advanced options of {settings.stage}" if name in settings.advanced() else None
    option = typer.Option(*names, help=help_text, metavar=metavar, show_default=False, rich_help_panel=panel)
    return Annotated[kind | None, option, item]


def _form(item: FieldInfo) -> str:
    """Return how an entry of a list or a table is written."""
    if get_origin(item.annotation) is tuple:
        return "NAME"
    return "NAME=SHARE" if choices_of(item) else "NAME=VALUE"


def option_name(name: str) -> str:
    """Return the option of a parameter or of a setting."""
    return f"--{name.replace('_', '-')}"


def _value(name: str, item: FieldInfo, value: Any) -> Any:
    """Convert what Typer has read from the command line to what the settings take. Commas separate entries.

    A single name without a share has the share 1. Raises InputError for an entry that is not NAME=VALUE if the setting
    needs this form, and for a name that occurs twice.
    """
    if not isinstance(value, list):
        return value
    texts, form = [entry.strip() for text in value for entry in text.split(",")], _form(item)
    if form == "NAME":
        return tuple(texts)
    if form == "NAME=SHARE" and len(texts) == 1 and "=" not in texts[0]:
        return {texts[0]: 1.0}
    pairs: dict[str, float | bool] = {}
    for text in texts:
        key, number = _pair(option_name(name), form, text)
        if key in pairs:
            raise InputError(f"{option_name(name)} has {key} twice: give every name once")
        pairs[key] = number
    return pairs


def _pair(option: str, form: str, text: str) -> tuple[str, float | bool]:
    """Split an entry into its name and its value. Raises InputError if it has another form."""
    switches = form == "NAME=VALUE"
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals):
        raise InputError(f"{option} {text!r}: it must be {form}, such as {'norm=2' if switches else 'uniform=0.5'}")
    if switches and value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        return name, float(value)
    except ValueError:
        wanted = "a number, true or false" if switches else "a number"
        raise InputError(f"{option} {text!r}: the value of {name} must be {wanted}") from None
