"""The index of the commands: names and help texts, kept in index.json, so that help needs no command's modules.

A command's options come from its flow and its settings. Importing these loads Prefect, MLflow and scikit-learn, which
takes seconds. The index has what `--help` prints. Any other arguments are read by the real command, whose modules are
imported then. `make generated` writes the index, and a test compares it with the commands.
"""

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from flows.cli.terminal import CommandGroup, new_app
from flows.job import job_modules
from tasks.workspace.components import components

INDEX = Path(__file__).with_name("index.json")
HELP_OPTIONS = ("-h", "--help")
Rows = list[tuple[str, str]]
# the modules with the commands, in the order in which the help lists them
COMMANDS = ("serving", "overviews", "services", "status", "entry_point")
TOPICS = (*job_modules(), *(f"flows.cli.commands.{name}" for name in COMMANDS))


def app_of(*topics: str, only: str = "") -> typer.Typer:
    """Return the application with the commands of these topics. `only` is explained in App."""
    app = new_app(only=only)
    for topic in topics:
        if topic in job_modules():
            from flows.cli.flow_command import add_jobs  # loads the settings

            add_jobs(app, topic)
        else:
            import_module(topic).add(app)
    return app


def whole_app() -> typer.Typer:
    """Return the application with all commands, loaded."""
    return app_of(*TOPICS)


@dataclass(frozen=True)
class Entry:
    """What `--help` prints of a command, before it is wrapped to the width of the terminal.

    topic     module that declares the command
    help      its description
    epilog    the text after its options
    hidden    whether `kgcal --help` leaves it out
    usage     the words after its name in the line "Usage:"
    sections  title -> rows of names and descriptions: Arguments, Options
    commands  the commands of a group; empty for a command
    """

    topic: str
    help: str
    epilog: str
    hidden: bool
    usage: list[str]
    sections: dict[str, Rows]
    commands: dict[str, "Entry"] = field(default_factory=dict)


def group_entries(group: TyperGroup, topics: Mapping[str, str], context: typer.Context) -> dict[str, Entry]:
    """Return name -> entry of the commands of a group.

    topics   name of a command -> its topic
    context  context of the group, from which its commands inherit the names of the help option
    """
    return {name: _entry(command, topics[name], name, context) for name, command in group.commands.items()}


def _entry(command: Any, topic: str, name: str, parent: typer.Context) -> Entry:
    context = typer.Context(command, info_name=name, parent=parent, **command.context_settings)
    sections: dict[str, Rows] = {"Arguments": [], "Options": []}
    for item in command.get_params(context):
        if (row := item.get_help_record(context)) is not None:
            sections[f"{item.param_type_name.title()}s"].append(row)
    found: dict[str, Entry] = {}
    if isinstance(command, TyperGroup):
        found = group_entries(command, dict.fromkeys(command.commands, topic), context)
    usage = command.collect_usage_pieces(context)
    return Entry(topic, command.help or "", command.epilog or "", command.hidden, usage, sections, found)


def index_text() -> str:
    """Return the text of index.json. Imports all commands."""
    topics: dict[str, str] = {}
    for topic in TOPICS:
        topics |= dict.fromkeys(_topic_group(topic).commands, topic)
    whole = whole_group()
    entries = group_entries(whole, topics, typer.Context(whole, info_name="kgcal", **whole.context_settings))
    found = {"components": components(), "commands": {name: asdict(entry) for name, entry in entries.items()}}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def whole_group() -> TyperGroup:
    """Return the command line with all commands, loaded."""
    group = get_command(whole_app())
    assert isinstance(group, TyperGroup)
    return group


def _topic_group(topic: str, only: str = "") -> TyperGroup:
    """Return the command line with only the commands of a topic. `only` is explained in App."""
    gc.disable()  # imports leave no garbage; without the collector they take two thirds of the time
    group = get_command(app_of(topic, only=only))
    gc.freeze()  # what is loaded now stays until the end: the collector need not look at it
    gc.enable()
    assert isinstance(group, TyperGroup)
    return group


class IndexedCommand(TyperCommand):
    """A command that prints its help from the index. For any other arguments it gives way to the real command."""

    def __init__(self, path: Sequence[str], entry: Entry, current: bool) -> None:
        """Make the command at `path`, such as ("import", "pykeen").

        current  whether the index lists the components that exist; if not, the real command prints its help
        """
        super().__init__(path[-1], help=entry.help, epilog=entry.epilog, hidden=entry.hidden, rich_markup_mode=None)
        self.path, self.entry, self.current = path, entry, current

    def real(self, helps: bool) -> Any:
        """Import the command's modules, and return the real command. `helps`: it will print its help, and not run."""
        command: Any = _topic_group(self.entry.topic, only="" if helps else self.path[0])
        for name in self.path:
            command = command.commands[name]
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context in which the command runs: the index's if `args` is a help option, else the real one's."""
        if self.current and len(args) == 1 and args[0] in HELP_OPTIONS:
            return super().make_context(info_name, args, parent, **extra)
        helps = any(argument in HELP_OPTIONS for argument in args)
        return self.real(helps).make_context(info_name, args, parent, **extra)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name in the line "Usage:"."""
        return list(self.entry.usage)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of the help: arguments and options."""
        for title, rows in [(title, rows) for title, rows in self.entry.sections.items() if rows]:
            with formatter.section(title):
                formatter.write_dl([(left, right) for left, right in rows])


def read_index() -> tuple[dict[str, Entry], bool]:
    """Return name -> entry of the commands, and whether the index lists the components that exist."""
    found = json.loads(INDEX.read_text(encoding="utf-8"))
    return _entries(found["commands"]), found["components"] == components()


def _entries(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Entry]:
    return {name: Entry(**{**item, "commands": _entries(item["commands"])}) for name, item in found.items()}


class LazyGroup(CommandGroup):
    """The group of all commands, made from the index. A command's modules are imported when it runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        entries, current = read_index()
        for name, entry in entries.items():
            self.add_command(_indexed((name,), entry, current), name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command; one that the index lacks, such as that of a new stage, is loaded with all others."""
        return super().get_command(ctx, cmd_name) or whole_group().get_command(ctx, cmd_name)


def lazy_app() -> typer.Typer:
    """Return the whole command line, with the help texts of the index in place of the commands."""
    return new_app(LazyGroup)


def _indexed(path: tuple[str, ...], entry: Entry, current: bool) -> Any:
    if not entry.commands:
        return IndexedCommand(path, entry, current)
    found = {name: _indexed((*path, name), inner, current) for name, inner in entry.commands.items()}
    return CommandGroup(name=path[-1], commands=found, help=entry.help, no_args_is_help=True, rich_markup_mode=None)


if __name__ == "__main__":
    print(index_text(), end="")
