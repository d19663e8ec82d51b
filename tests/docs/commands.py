"""Compare the words of a documented `kgcal` command with the command line."""

import re
import shlex
from functools import cache

import typer
from typer.main import get_command

PLACEHOLDER = re.compile(r"[A-Z]+$")  # a placeholder such as COMMAND or STAGE

command_line = cache(get_command)


def unknown_words(app: typer.Typer, command: str) -> list[str]:
    """Return the command or options in the text that `kgcal` does not have."""
    words = shlex.split(command, comments=True)[1:]
    commands = command_line(app).commands  # type: ignore[attr-defined]
    before = {option for one in command_line(app).params for option in one.opts} | {"--help"}
    if not words or PLACEHOLDER.match(words[0]) or words[0].startswith("-"):
        return [word for word in words if word.startswith("-") and word not in before]
    if words[0] not in commands:
        return [words[0]]
    command_found = commands[words[0]]
    if hasattr(command_found, "commands"):  # a group of commands, such as `kgcal import`
        if len(words) == 1 or words[1] not in command_found.commands:
            return words[1:2]
        command_found = command_found.commands[words[1]]
    parameters = command_found.params
    known = {option for one in parameters for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = [word.split("=")[0] for word in words if re.match(r"--[a-z]", word)]
    return [option for option in given if option not in known]
