"""The index of the commands: `kgcal --help` shows it without loading the commands, whose imports take seconds.

`make generated` writes index.json from the commands. A test compares the two.
"""

import gc
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from flows.cli.terminal import CommandGroup, new_app

# the modules of flows/cli/commands with the commands, in the order in which the help lists them
TOPICS = (
    "pipelines",
    "predictions",
    "serving",
    "stages",
    "imports",
    "upkeep",
    "searches",
    "reproduction",
    "overviews",
    "services",
    "status",
    "entry_point",
)


def app_of(*topics: str) -> typer.Typer:
    """Return the application with the commands of these topics."""
    app = new_app()
    for topic in topics:
        import_module(f"flows.cli.commands.{topic}").add(app)
    return app


def whole_app() -> typer.Typer:
    """Return the application with all commands, loaded."""
    return app_of(*TOPICS)


@dataclass(frozen=True)
class Entry:
    """A command: its name, the module of flows/cli/commands that adds it, its help, and whether the help hides it."""

    command: str
    topic: str
    help: str
    hidden: bool


class LazyGroup(CommandGroup):
    """The group of all commands. A command is loaded when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, entry, rest = super().resolve_command(ctx, args)
        if name is None or entry is None:
            return name, entry, rest
        [topic] = [entry.topic for entry in index() if entry.command == name]
        return name, commands_of(topic)[name], rest


def lazy_app() -> typer.Typer:
    """Return the whole command line, with the help texts of the index in place of the commands."""
    app = new_app(LazyGroup)
    for entry in index():
        app.command(entry.command, help=entry.help, hidden=entry.hidden)(lambda: None)
    return app


def index() -> list[Entry]:
    """Return the entries of index.json."""
    text = files("flows.cli").joinpath("index.json").read_text(encoding="utf-8")
    return [Entry(**entry) for entry in json.loads(text)]


def index_text() -> str:
    """Return the text of index.json, from the commands."""
    entries = [
        Entry(name, topic, command.short_help, command.hidden)
        for topic in TOPICS
        for name, command in commands_of(topic).items()
    ]
    return json.dumps([asdict(entry) for entry in entries], indent=1) + "\n"


def commands_of(topic: str) -> Mapping[str, Any]:
    """Load the commands of a topic, by name."""
    group = get_command(app_of(topic))
    assert isinstance(group, TyperGroup)
    gc.freeze()  # what is loaded now stays until the end: the collector need not look at it
    gc.enable()  # main() has disabled it
    return group.commands


if __name__ == "__main__":
    print(index_text(), end="")
