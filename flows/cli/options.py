"""Command-line options made from the settings: name, type, default, range and description stand in kgcore/config.py."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from kgcore.config import Config, describe
from kgcore.errors import InputError


def command(
    run: Callable[[dict[str, Any]], None], configs: Mapping[str, type[Config]], others: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """A function for Typer with an option for each field of the configs, and the other parameters.

    It calls `run` with the other parameters by name and, under each name in `configs`, the config that was built.
    """
    own = {name: [(item, _annotation(config, item)) for item in fields(config)] for name, config in configs.items()}

    def call(**values: Any) -> None:
        arguments = {parameter.name: values[parameter.name] for parameter in others}
        for name, config in configs.items():
            given = {item.name: _value(item, values[item.name]) for item, _ in own[name]}
            given = {name: value for name, value in given.items() if value != {}}  # a mapping keeps its default
            arguments[name] = config(**given)
        run(arguments)

    options = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=_default(item), annotation=annotation)
        for items in own.values()
        for item, annotation in items
    ]
    signature = inspect.Signature([*others, *options])
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return call


def _annotation(config: type[Config], item: "Field[Any]") -> Any:
    kind = get_type_hints(config)[item.name]
    help_text = describe(item)
    if get_origin(kind) in (tuple, dict):
        kind, help_text = list[str], f"{help_text}; several: commas between them, or the option again"
    names = [f"--{item.name.replace('_', '-')}"]
    if kind is bool:
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    return Annotated[kind, typer.Option(*names, help=help_text)]


def _default(item: "Field[Any]") -> Any:
    if item.default is not MISSING:
        return list(item.default) if isinstance(item.default, tuple) else item.default
    assert item.default_factory is not MISSING  # a mapping, given as NAME=NUMBER
    return [f"{name}={number:g}" for name, number in item.default_factory().items()]


def _value(item: "Field[Any]", value: Any) -> Any:
    """What Typer read, as the config holds it: `a,b` is two entries of a tuple or a mapping, as `a` and `b` are, and of
    shares a name alone is the whole."""
    if item.default is MISSING:
        texts = _entries(value)
        if "choices" in item.metadata and len(texts) == 1 and "=" not in texts[0]:
            return {texts[0]: 1.0}  # the whole of it
        return dict(_pair(item.name, text) for text in texts)
    return tuple(_entries(value)) if isinstance(item.default, tuple) else value


def _entries(texts: Sequence[str]) -> list[str]:
    return [entry.strip() for text in texts for entry in text.split(",")]


def _pair(option: str, text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise InputError(f"--{option.replace('_', '-')} {text!r}: NAME=NUMBER is needed, such as norm=2") from None
