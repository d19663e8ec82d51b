"""The entry points of MLproject: their parameters, their YAML, and their translation into commands of kgcal."""

import difflib
import inspect
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

from flows.job import all_jobs
from kgcore.config.base import value_text
from kgcore.config.choices import BY_PRESET
from kgcore.errors import InputError

# entry point -> its job: `main`, the stages, then the others
JOBS = {
    "main" if job.command == ("run",) else job.name: job
    for job in sorted(all_jobs(), key=lambda job: (job.command != ("run",), job.module != "flows.stages"))
}
# entry point -> words of the command of kgcal: `import-pykeen` is `kgcal import pykeen`
COMMANDS = {name: job.command for name, job in JOBS.items()}
WITH_PRESET = [name for name, job in JOBS.items() if "preset" in inspect.signature(job.fn).parameters]
UNDECLARED = BY_PRESET | {"preset"}
HEAD = """\
# Written by `make generated` from the options of the commands. `kgcal ENTRY --help` explains them; for main, see
# `kgcal run --help`.
#
# mlflow run . -e ENTRY --env-manager local -P name=value
#
# Set MLFLOW_TRACKING_URI first. Lists and tables are written with commas, -P training_strategy=typed=0.5,uniform=0.5;
# files and folders with their full paths. An empty value means "not given".
#
# MLflow records the default of a declared parameter as if it had been given. So the preset, and the settings that it
# may choose, are not declared. They can be given nevertheless: -P preset=best, -P epochs=20. Comments list them with
# the defaults that apply if the preset has no value.
name: kgcal

python_env: python_env.yaml

entry_points:
"""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry point, and the option of the command that it stands for.

    option    name of the option, such as --epochs; "" for an argument of the command, which has no name
    default   value that MLflow passes on if the user gives none; "" if there is no default
    declared  whether MLproject declares the parameter; `mlflow run -P` also accepts undeclared parameters
    negative  the option that turns a flag off; "" if the flag has no such option, None if the option is not a flag
    several   whether the option is repeated for each of several values
    """

    name: str
    option: str
    default: str | int | float
    declared: bool
    negative: str | None
    several: bool = False

    @property
    def kind(self) -> str:
        """Return the type that MLproject states. MLflow shows it, but does not check values against it."""
        return type(self.default).__name__.replace("str", "string")

    def argument(self, text: str) -> list[str]:
        """Return the command-line words that set this parameter to `text`; no words if `text` is empty.

        Raises InputError for a flag whose value is not true or false.
        """
        if not text:
            return []
        if not self.option:
            return text.split(",")
        if self.several:
            return [f"{self.option}={word}" for word in text.split(",")]
        if self.negative is None:
            return [f"{self.option}={text}"]  # one word, so that a value that starts with "-" is not read as an option
        if text.lower() not in ("true", "false"):
            raise InputError(f"{self.name} is {text!r}: it must be true or false")
        named = self.option if text.lower() == "true" else self.negative
        return [named] if named else []


def parameters(app: typer.Typer, entry: str) -> list[Parameter]:
    """Return the parameters of an entry point: the arguments and options of its command.

    Two kinds are left out. Files that the command writes: MLflow runs the command in a folder of its own. An argument
    that means the same as an option. Raises InputError for an unknown entry point.
    """
    if entry not in COMMANDS:
        raise InputError(f"there is no entry point {entry!r}: the known ones are {', '.join(COMMANDS)}")
    *groups, name = COMMANDS[entry]
    for word in groups:
        [app] = [known.typer_instance for known in app.registered_groups if known.name == word and known.typer_instance]
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    items = [i for i in group.commands[name].params if isinstance(i, TyperOption | TyperArgument)]
    [callback] = [known.callback for known in app.registered_commands if known.name == name]
    assert callback is not None
    annotations = {name: get_args(item.annotation) for name, item in inspect.signature(callback).parameters.items()}
    annotations = {name: arguments for name, arguments in annotations.items() if arguments}
    files = {name for name, arguments in annotations.items() if Path in (arguments[0], *get_args(arguments[0]))}
    named, instead = [(item, str(item.name)) for item in items], JOBS[entry].instead
    same_as_option = {instead.name} if instead else set()
    return [
        _parameter(item, _setting(annotations[name]), entry in WITH_PRESET)
        for item, name in named
        if name in annotations.keys() - files - same_as_option
    ]


def _setting(annotation: tuple[Any, ...]) -> FieldInfo | None:
    """Return the setting that an option is made from; None if the option is not made from a setting."""
    return next((part for part in annotation if isinstance(part, FieldInfo)), None)


def _parameter(item: TyperOption | TyperArgument, setting: FieldInfo | None, with_preset: bool) -> Parameter:
    name = str(item.name)
    if isinstance(item, TyperArgument):
        return Parameter(name, "", "", True, None)
    default: Any = item.default if setting is None else setting.default
    if item.envvar or default is None or default in ({}, []):
        default = ""  # the environment variable sets the value, or there is no default
    elif isinstance(default, bool):
        default = str(default).lower()
    elif setting is not None and isinstance(default, tuple | dict):
        default = value_text(default)
    negative = "".join(item.secondary_opts) if item.is_flag else None
    declared, several = not (with_preset and name in UNDECLARED), setting is None and item.multiple
    return Parameter(name, item.opts[0], default, declared, negative, several)


def translated(app: typer.Typer, entry: str, values: Sequence[str]) -> list[str]:
    """Return the kgcal command, as words, for an entry point and `values`: --name, value, --name, value, ...

    Raises InputError for a name that the entry point does not have. MLflow passes on every name without a check.
    """
    known = {parameter.name: parameter for parameter in parameters(app, entry)}
    arguments = [*COMMANDS[entry]]
    if len(values) % 2:
        raise InputError(f"the entry point {entry} takes --name value for each parameter: {values[-1]!r} has no value")
    for name, value in zip(values[::2], values[1::2], strict=True):
        name = name.removeprefix("--")
        if name not in known:
            near = difflib.get_close_matches(name, known, cutoff=0.5) or known
            raise InputError(f"the entry point {entry} has no parameter {name!r}: it has {', '.join(near)}")
        arguments += known[name].argument(value)
    return arguments


def project_text(app: typer.Typer) -> str:
    """Return the text of the MLproject file."""
    return HEAD + "".join(_entry_text(entry, parameters(app, entry)) for entry in COMMANDS)


def _entry_text(entry: str, known: Sequence[Parameter]) -> str:
    """Return the YAML of an entry point."""
    declared, others = [p for p in known if p.declared], [p for p in known if not p.declared]
    text = f"  {entry}:\n    parameters:\n"
    text += "".join(f"      {p.name}: {{type: {p.kind}, default: {json.dumps(p.default)}}}\n" for p in declared)
    if others:
        text += "      # the preset, and what it may choose:\n"
        text += "".join(f"      #   {p.name}: {{type: {p.kind}, default: {json.dumps(p.default)}}}\n" for p in others)
    # `python -m` runs the code of the checkout in any environment; an installed `kgcal` could be another version
    words = f"python -m flows.cli project {entry} " + " ".join(f"--{p.name}\0{{{p.name}}}" for p in declared)
    lines = textwrap.wrap(words, 110, break_long_words=False, break_on_hyphens=False)
    return text + "    command: >-\n" + "".join(f"      {line}\n" for line in lines).replace("\0", " ")


if __name__ == "__main__":
    from flows.cli.main import whole_app

    print(project_text(whole_app()), end="")
