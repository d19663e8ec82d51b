"""Command-line options made from the settings in kgcore/config: names, types, defaults, ranges and descriptions."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from kgcore.config import Config, describe
from kgcore.config.base import Metavar, choices_of, options_of, value_text
from kgcore.errors import InputError

Settings = type[Config]


def command(
    run: Callable[..., None], settings: Mapping[str, Settings], others: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Return a function for Typer that has one option for each field of the settings, and the parameters `others`.

    An option that is not on the command line is None. The function calls `run` with keyword arguments: the parameters
    `others`, and an instance of each class in `settings`, to which it gives the options on the command line.
    """

    def call(**values: Any) -> None:
        arguments = {parameter.name: values[parameter.name] for parameter in others}
        for name, kind in settings.items():
            given = {key: values[key] for key in kind.model_fields if values[key] is not None}
            arguments[name] = kind(**{key: _value(key, kind.model_fields[key], given[key]) for key in given})
        run(**arguments)

    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(kind, name))
        for kind in settings.values()
        for name in kind.model_fields
    ]
    signature = inspect.Signature([*others, *options])
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return call


def component_options(settings: Iterable[Settings]) -> str:
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
        text += "\b\n" + "\n".join([f"{_option(setting)} for each {registry.kind}, with defaults:", *lines]) + "\n\n"
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
    help_text += f"  [default: {value_text(item.default)}]"
    names = [f"{_option(name)}/--no-{_option(name)[2:]}"] if kind is bool else [_option(name)]
    return Annotated[kind | None, typer.Option(*names, help=help_text, metavar=metavar, show_default=False), item]


def _form(item: FieldInfo) -> str:
    """Return how an entry of a list or a table is written."""
    if get_origin(item.annotation) is tuple:
        return "NAME"
    return "NAME=SHARE" if choices_of(item) else "NAME=VALUE"


def _option(name: str) -> str:
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
        key, number = _pair(_option(name), form, text)
        if key in pairs:
            raise InputError(f"{_option(name)} has {key} twice: give every name once")
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
