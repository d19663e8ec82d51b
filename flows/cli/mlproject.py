"""The entry points of MLproject: their parameters, their YAML, and their translation into commands of kgcal."""

import difflib
import inspect
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

from flows.cli.flow_command import option_name, settings_of
from flows.job import Argument, Option, all_jobs
from kgcore.config.base import BY_PRESET, value_text
from kgcore.errors import InputError

# entry point -> its job: `main`, the stages, then the others
JOBS = {
    "main" if job.command == ("run",) else job.name: job
    for job in sorted(all_jobs(), key=lambda job: (job.command != ("run",), job.module != "flows.stages"))
}
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


def parameters(entry: str) -> list[Parameter]:
    """Return the parameters of an entry point: those of the flow, then its settings.

    Raises InputError for an unknown entry point.
    """
    if entry not in JOBS:
        raise InputError(f"there is no entry point {entry!r}: the known ones are {', '.join(JOBS)}")
    job = JOBS[entry]
    given, hints, settings = inspect.signature(job.fn).parameters, get_type_hints(job.fn), settings_of(job)
    undeclared = UNDECLARED if "preset" in given else ()
    known: list[Parameter] = []
    for name in [name for name in given if name not in settings]:
        if isinstance(shown := job.shown.get(name), Argument):
            known.append(Parameter(name, "", "", True, None))
            continue
        option, negative = (shown or Option()).name or option_name(name), "" if hints[name] is bool else None
        default = "" if name == "device" else _default(given[name].default)  # KGCAL_DEVICE sets the device
        several = get_origin(hints[name]) is list
        known.append(Parameter(name, option, default, name not in undeclared, negative, several))
    for name, item in (item for kind in settings.values() for item in kind.model_fields.items()):
        negative = f"--no-{option_name(name)[2:]}" if item.annotation is bool else None
        known.append(Parameter(name, option_name(name), _default(item.default), name not in undeclared, negative))
    return known


def _default(value: Any) -> str | int | float:
    """Return a default as MLflow passes it on; "" for a parameter without a default."""
    if value in (None, [], {}, inspect.Parameter.empty):
        return ""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number or isinstance(value, str) else value_text(value)


def translated(entry: str, values: Sequence[str]) -> list[str]:
    """Return the kgcal command, as words, for an entry point and `values`: --name, value, --name, value, ...

    Raises InputError for a name that the entry point does not have. MLflow passes on every name without a check.
    """
    known = {parameter.name: parameter for parameter in parameters(entry)}
    arguments = [*JOBS[entry].command]
    if len(values) % 2:
        raise InputError(f"the entry point {entry} takes --name value for each parameter: {values[-1]!r} has no value")
    for name, value in zip(values[::2], values[1::2], strict=True):
        name = name.removeprefix("--")
        if name not in known:
            near = difflib.get_close_matches(name, known, cutoff=0.5) or known
            raise InputError(f"the entry point {entry} has no parameter {name!r}: it has {', '.join(near)}")
        arguments += known[name].argument(value)
    return arguments


def project_text() -> str:
    """Return the text of the MLproject file."""
    return HEAD + "".join(_entry_text(entry, parameters(entry)) for entry in JOBS)


def _entry_text(entry: str, known: Sequence[Parameter]) -> str:
    """Return the YAML of an entry point."""
    declared, others = [p for p in known if p.declared], [p for p in known if not p.declared]
    text = f"  {entry}:\n    parameters:\n"
    text += "".join(f"      {p.name}: {{type: {p.kind}, default: {json.dumps(p.default)}}}\n" for p in declared)
    if others:
        text += "      # the preset, and what it may choose:\n"
        text += "".join(f"      #   {p.name}: {{type: {p.kind}, default: {json.dumps(p.default)}}}\n" for p in others)
    # `python -m` runs the code of the checkout in any environment; an installed `kgcal` could be another version
    words = f"python -m kgcal project {entry} " + " ".join(f"--{p.name}\0{{{p.name}}}" for p in declared)
    lines = textwrap.wrap(words, 110, break_long_words=False, break_on_hyphens=False)
    return text + "    command: >-\n" + "".join(f"      {line}\n" for line in lines).replace("\0", " ")


if __name__ == "__main__":
    print(project_text(), end="")
