"""What the command of a job reads from a command line."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.testing import CliRunner

from flows.cli.flow_command import command
from flows.job import Job
from kgcore.config import Config
from kgcore.errors import InputError


def read(words: Sequence[str], settings: Mapping[str, type[Config]], **others: Any) -> dict[str, Any]:
    """Return the arguments with which a command calls its job. Raises InputError where it refuses the words.

    settings  parameter of the job -> class of its settings
    others    another parameter of the job -> its default
    """
    arguments: list[dict[str, Any]] = []

    def work(**given: Any) -> str:
        arguments.append(given)
        return ""

    kinds = {name: type(default) for name, default in others.items()} | dict(settings)
    work.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=others.get(name), annotation=kind)
            for name, kind in kinds.items()
        ]
    )
    work.__annotations__ = kinds | {"return": str}
    work.__doc__ = "Read.\n\nArgs:\n" + "".join(f"    {name}: a value\n" for name in kinds)
    reader = typer.Typer()
    reader.command()(command(Job("read", work, ("read",), (), question=True)))
    done = CliRunner().invoke(reader, [*words], env={"KGCAL_PREFECT": "off"})
    if done.exit_code == 2:
        raise InputError(done.stderr)
    assert done.exit_code == 0, done.output
    return arguments[0]
