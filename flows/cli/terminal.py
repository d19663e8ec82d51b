"""The parts that all commands share: the Typer application, the output, and the exit codes."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.logging import RichHandler
from typer.core import TyperGroup

from kgcore.errors import InputError, KgcalError, KgcalWarning

console = Console(highlight=False)
WIDEST_HELP = 120  # characters


class CommandGroup(TyperGroup):
    """A group of commands. In `kgcal --help` it shows the whole first paragraph of each command's help text."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, command in self.commands.items():
            self.add_command(command, name)

    def add_command(self, cmd: Any, name: str | None = None) -> None:
        """Add a command, and make the first paragraph of its help text its short help."""
        cmd.short_help = " ".join((cmd.help or "").split("\n\n")[0].split())
        super().add_command(cmd, name)


def new_app(group: type[CommandGroup] = CommandGroup) -> typer.Typer:
    """Return the application `kgcal` without commands. `group` is the class of the group that they are added to."""
    app = typer.Typer(
        cls=group,
        rich_markup_mode=None,  # boxes leave too little width for the option names
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST_HELP},
        help="Probabilities you can trust from knowledge graph embeddings.",
    )

    def options(
        version: Annotated[
            bool, typer.Option("--version", callback=print_version, is_eager=True, help="print the version")
        ] = False,
    ) -> None:
        """Declare `--version`, the only option that comes before a command."""

    app.callback()(options)
    return app


def print_version(wanted: bool) -> None:
    """If `--version` is given, print the version of kgcal and exit."""
    if wanted:
        print(f"kgcal {metadata.version('kgcal')}")
        raise typer.Exit


@contextmanager
def guarded() -> Iterator[None]:
    """Log to the terminal, and turn a KgcalError in the block, a command, into one sentence and exit code 2."""
    log_to_terminal()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # `with` blocks end their runs
    try:
        yield
    except KgcalError as error:
        fail(str(error))


def log_to_terminal() -> None:
    """Send the messages and warnings of kgcal to standard error, once however often this is called."""
    logger = logging.getLogger("kgcal")
    for before in [own for own in logger.handlers if isinstance(own, RichHandler)]:
        logger.removeHandler(before)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = RichHandler(
        console=Console(stderr=True),
        show_path=False,
        show_level=False,
        omit_repeated_times=False,
        log_time_format="%H:%M:%S",
    )
    logger.addHandler(handler)
    usual = warnings.showwarning

    def show_warning(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        if issubclass(category, KgcalWarning):
            logger.warning("warning: %s", message)
        else:
            usual(message, category, *where, **options)

    warnings.showwarning = show_warning


def fail(message: str) -> NoReturn:
    """Print the message on standard error and exit with code 2."""
    print(f"kgcal: {message}", file=sys.stderr)
    raise typer.Exit(2)


def check_target(path: Path, option: str = "--json") -> None:
    """Raise InputError if a result file cannot be written. Commands call this before they compute anything."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: there is no folder {folder}")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: a file cannot be written there")
