"""Command-line options made from the settings in kgcore/config: names, types, defaults, ranges and descriptions."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from kgcore.base_rate import BaseRate
from kgcore.config import Config, Given, describe
from kgcore.config.base import default_of, default_text
from kgcore.errors import InputError

INTERVAL = "RATE|LOW:HIGH"  # how a number with an interval is written
Settings = type[Config] | type[Given[Any]]


def command(
    run: Callable[..., None], settings: Mapping[str, Settings], others: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Return a function for Typer that has one option for each field of the settings, and the parameters `others`.

    An option that is not on the command line is None. The function calls `run` with keyword arguments: the parameters
    `others` and, under each name in `settings`, an instance that holds only the given values.
    """
    items = {name: fields(config_of(kind)) for name, kind in settings.items()}
    types = {name: get_type_hints(config_of(kind)) for name, kind in settings.items()}

    def call(**values: Any) -> None:
        arguments = {parameter.name: values[parameter.name] for parameter in others}
        for name, kind in settings.items():
            given = {item.name: values[item.name] for item in items[name] if values[item.name] is not None}
            read: dict[str, object] = {}
            for item in (item for item in items[name] if item.name in given):
                read |= _values(item, given[item.name])
            arguments[name] = kind(**read)
        run(**arguments)

    options = [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(types[name][item.name], item),
        )
        for name in settings
        for item in items[name]
    ]
    signature = inspect.Signature([*others, *options])
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return call


def config_of(kind: Settings) -> type[Config]:
    """Return the Config class of the settings: `kind` itself, or the class that a `Given` class is made for."""
    return kind.config if issubclass(kind, Given) else kind


def component_options(settings: Iterable[Settings]) -> str:
    """Return a text for the end of a command's help: the options of each model and loss with their defaults.

    The text has one line per component.
    """
    text = ""
    for item in (item for kind in settings for item in fields(config_of(kind))):
        if (registry := item.metadata.get("options_of")) is None:
            continue
        own = {name: registry.options(name) for name in registry.names()}
        width = max(map(len, own))
        lines = [
            f"  {name:<{width}}  {', '.join(f'{option}={value.lower()}' for option, value in options.items())}"
            for name, options in own.items()
            if options
        ]
        text += (
            "\b\n" + "\n".join([f"{_option_name(item.name)} for each {registry.kind}, with defaults:", *lines]) + "\n\n"
        )
    return text


def _annotation(kind: Any, item: "Field[Any]") -> Any:
    """Return the annotation of an option for Typer: its type, its help, and the setting that it is made from.

    kind  type of the setting
    """
    help_text, metavar = describe(item), None
    if get_origin(kind) in (tuple, dict):
        kind, metavar = list[str], _metavar(item)
        help_text += "; separate several by commas"
    if "options_of" in item.metadata:
        help_text += "; see the list below"
    name = _option_name(item.name)
    names = [f"{name}/--no-{name[2:]}"] if kind is bool else [name]
    if "ends" in item.metadata:
        kind, metavar = str, INTERVAL
    help_text += f"  [default: {default_text(item)}]"
    return Annotated[kind | None, typer.Option(*names, help=help_text, metavar=metavar, show_default=False), item]


def _metavar(item: "Field[Any]") -> str:
    if isinstance(default_of(item), tuple):
        return "NAME"
    return "NAME=SHARE" if "choices" in item.metadata else "NAME=VALUE"


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _values(item: "Field[Any]", value: Any) -> dict[str, object]:
    """Return setting -> value of an option. Only LOW:HIGH sets other settings than its own: the ends of an interval."""
    if "ends" not in item.metadata:
        return {item.name: _value(item, value)}
    rate = BaseRate.read(value)
    found: dict[str, object] = {item.name: rate and rate.value}
    found.update(zip(item.metadata["ends"], (rate and rate.limits) or (), strict=False))
    return found


def _value(item: "Field[Any]", value: Any) -> Any:
    """Convert what Typer has read from the command line to the value of a setting.

    Commas separate entries. A single name without a share has the share 1. Raises InputError for an entry that is not
    NAME=VALUE if the setting needs this form, and for a name that occurs twice.
    """
    default = default_of(item)
    if isinstance(default, tuple):
        return tuple(_entries(value))
    if not isinstance(default, dict):
        return value
    texts = _entries(value)
    if "choices" in item.metadata and len(texts) == 1 and "=" not in texts[0]:
        return {texts[0]: 1.0}
    pairs = [_pair(item, text) for text in texts]
    for name in (name for name, _ in pairs):
        if [other for other, _ in pairs].count(name) > 1:
            raise InputError(f"{_option_name(item.name)} has {name} twice: give every name once")
    return dict(pairs)


def _entries(texts: Sequence[str]) -> list[str]:
    return [entry.strip() for text in texts for entry in text.split(",")]


def _pair(item: "Field[Any]", text: str) -> tuple[str, float | bool]:
    """Split NAME=VALUE into the name and its value: a number or, for options of components, also true or false.

    Raises InputError if the text has another form.
    """
    option, switches = _option_name(item.name), "options_of" in item.metadata
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals):
        example = "norm=2" if switches else "uniform=0.5"
        raise InputError(f"{option} {text!r}: it must be {_metavar(item)}, such as {example}")
    if switches and value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        return name, float(value)
    except ValueError:
        wanted = "a number, true or false" if switches else "a number"
        raise InputError(f"{option} {text!r}: the value of {name} must be {wanted}") from None
