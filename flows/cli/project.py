"""MLproject: its text, made from the commands' options, and what its entry points' parameters are as options.

`python -m flows.cli.project > MLproject` writes it anew.
"""

import difflib
import inspect
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

from kgcore.errors import InputError
from tasks.stages.table import STAGES

SAME_AS_MODEL = "run"  # an argument of `kgcal recalibrate`
# entry point -> command of kgcal
ENTRIES = {
    "main": "run",
    **{
        name: name
        for name in (*(stage.name for stage in STAGES), "recalibrate", "promote", "watch", "tune", "ensemble")
    },
}
HEAD = """\
# Made by `make mlproject` from the options of the commands: `kgcal ENTRY --help` says what each is.
# `mlflow run . -e ENTRY --env-manager local -P name=value`, with MLFLOW_TRACKING_URI set. Tables and lists are written
# with commas, `-P negatives=typed=0.5,uniform=0.5`; files and folders by their whole paths.
name: kgcal

python_env: python_env.yaml

entry_points:
"""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry point and the option that it is.

    option    "" for the command's arguments, which have no name
    default   as MLflow passes it on; "" where there is none
    negative  what says no to a flag; None where the option is not a flag, "" where nothing does
    several   whether the option is a list or a table
    """

    name: str
    option: str
    default: str | int | float
    negative: str | None
    several: bool

    @property
    def kind(self) -> str:
        """MLflow's type, which it shows and does not check."""
        return type(self.default).__name__.replace("str", "string")

    def argument(self, text: str) -> list[str]:
        """The option for a value; none for the default, so that KGCAL_DEVICE and its like count. Raises InputError."""
        if text == str(self.default) or (self.several and not text):
            return []
        if not self.option:
            return text.split(",")
        if self.negative is None:
            return [f"{self.option}={text}"]  # in one word: no value is taken for an option
        if text.lower() not in ("true", "false"):
            raise InputError(f"{self.name} is {text!r}: it must be true or false")
        named = self.option if text.lower() == "true" else self.negative
        return [named] if named else []


def parameters(app: typer.Typer, entry: str) -> list[Parameter]:
    """The parameters of an entry point: every argument and option of its command but an argument that says what an
    option does, and the files it writes, because MLflow runs it in another folder than the user's. Raises InputError
    where there is no such entry point."""
    if entry not in ENTRIES:
        raise InputError(f"there is no entry point {entry!r}: known are {', '.join(ENTRIES)}")
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    items = [i for i in group.commands[ENTRIES[entry]].params if isinstance(i, TyperOption | TyperArgument)]
    [callback] = [known.callback for known in app.registered_commands if known.name == ENTRIES[entry]]
    assert callback is not None
    annotations = {name: get_args(item.annotation) for name, item in inspect.signature(callback).parameters.items()}
    kinds = {name: arguments[0] for name, arguments in annotations.items() if arguments}
    files = {name for name, kind in kinds.items() if Path in (kind, *get_args(kind))}
    return [_parameter(item) for item in items if item.name in kinds.keys() - files - {SAME_AS_MODEL}]


def _parameter(item: TyperOption | TyperArgument) -> Parameter:
    name, negative = str(item.name), None
    if isinstance(item, TyperArgument):
        return Parameter(name, "", "", None, True)
    default: Any = item.default
    if item.is_flag:
        default, negative = str(default).lower(), "".join(item.secondary_opts)
    elif isinstance(default, list):
        default = ",".join(default)
    return Parameter(name, item.opts[0], "" if default is None else default, negative, item.multiple)


def translated(app: typer.Typer, entry: str, values: Sequence[str]) -> list[str]:
    """The command of kgcal, with its options, that an entry point is with these values: --name, value, --name, ...

    MLflow adds what nobody declared to the end of the command: that is refused. Raises InputError.
    """
    declared = {parameter.name: parameter for parameter in parameters(app, entry)}
    arguments = [ENTRIES[entry]]
    if len(values) % 2:
        raise InputError(f"the entry point {entry} takes --name value for each parameter: {values[-1]!r} is alone")
    for name, value in zip(values[::2], values[1::2], strict=True):
        name = name.removeprefix("--")
        if name not in declared:
            near = difflib.get_close_matches(name, declared, cutoff=0.5) or declared
            raise InputError(f"the entry point {entry} has no parameter {name!r}: it has {', '.join(near)}")
        arguments += declared[name].argument(value)
    return arguments


def project_text(app: typer.Typer) -> str:
    """The MLproject file."""
    text = HEAD
    for entry in ENTRIES:
        known = parameters(app, entry)
        text += f"  {entry}:\n    parameters:\n"
        text += "".join(f"      {p.name}: {{type: {p.kind}, default: {json.dumps(p.default)}}}\n" for p in known)
        # as a module, so that the code of the checkout runs in whatever environment there is
        words = f"python -m flows.cli project {entry} " + " ".join(f"--{p.name}\0{{{p.name}}}" for p in known)
        lines = textwrap.wrap(words, 110, break_long_words=False, break_on_hyphens=False)
        text += "    command: >-\n" + "".join(f"      {line}\n" for line in lines).replace("\0", " ")
    return text


if __name__ == "__main__":
    from flows.cli.commands import app

    print(project_text(app), end="")
