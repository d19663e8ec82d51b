"""The parts that all commands share: the Typer application, the output of all jobs, and the exit codes.

A cell of a table wraps only at spaces, never inside a word or a number.
"""

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich import box
from rich.cells import cell_len
from rich.console import ConsoleRenderable
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from kgcore.errors import InputError, KgcalError, KgcalWarning
from kgcore.measure.report.result import Result, ResultTable
from tasks.workspace.flow_run import Terminal, printable
from tasks.workspace.flow_run import console as errors
from tasks.workspace.resources import full_disk, full_memory
from tasks.workspace.settings import note_output

console = Terminal()
WIDEST_HELP = 120  # characters
GAP, NARROW_GAP = 2, 1  # spaces between two columns; NARROW_GAP if the table does not fit with GAP
SHORT_ID = 8  # characters of a shortened run id
AGAIN_SECONDS = 0.01


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
        print(f"kgcal {metadata.version('kgcal')}", flush=True)
        raise typer.Exit


def interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt the process again, a moment later, if Python has ignored an interruption.

    Python ignores every exception inside a finaliser (`__del__`), that of Ctrl-C or SIGTERM included, and those after
    the end of the main thread. Then the command has ended, and there is nothing to interrupt. Other exceptions are
    shown as usual.
    """
    if not isinstance(ignored.exc_value, KeyboardInterrupt | SystemExit):
        sys.__unraisablehook__(ignored)
    elif threading.main_thread().is_alive():
        number = signal.SIGINT if isinstance(ignored.exc_value, KeyboardInterrupt) else signal.SIGTERM
        threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()


@contextmanager
def guarded() -> Iterator[None]:
    """Log to the terminal, and turn the errors that a user can mend into one sentence and exit code 2."""
    log_to_terminal()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # `with` blocks end their runs
    sys.unraisablehook = interrupt_again
    try:
        yield
    except Exception as error:
        reason: BaseException | None = error
        while reason is not None and not isinstance(reason, KeyboardInterrupt | SystemExit):
            reason = reason.__cause__ or reason.__context__
        if reason is not None:  # a library has replaced an interruption by this error
            raise reason from None
        sentence = str(error) if isinstance(error, KgcalError) else full_disk(error) or full_memory(error)
        if sentence is None:
            raise
        fail(sentence)


class LogHandler(RichHandler):
    """Prints messages, and control characters as escapes: Rich would drop some of these."""

    def render_message(self, record: logging.LogRecord, message: str) -> ConsoleRenderable:
        """Return what is printed of a message."""
        return super().render_message(record, printable(message))


def log_to_terminal() -> None:
    """Send the messages and warnings of kgcal to standard error, once however often this is called."""
    logger = logging.getLogger("kgcal")
    for before in [own for own in logger.handlers if isinstance(own, RichHandler)]:
        logger.removeHandler(before)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = LogHandler(
        console=errors,
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
    errors.print(f"kgcal: {message}", soft_wrap=True)
    raise typer.Exit(2)


def check_target(path: Path, option: str = "--json", given: Sequence[Any] = ()) -> None:
    """Raise InputError if a result file cannot be written, or would take the place of a file.

    This is another file of the command line, or one that KGCAL_HOME keeps.

    given  all values of the command line, `path` among them

    Commands call this before they compute anything. If the process is killed while it writes the file, a later command
    removes the unfinished file.
    """
    from kgcore.outputs import place_of
    from tasks.workspace.settings import is_kept

    if str(path) == "-":
        raise InputError(f"{option} is -: name a file, or /dev/stdout for the terminal")
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device
        return
    target = place_of(path)
    if not target.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.absolute().parent}")
    if path.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(f"{option} {path}: a file cannot be written there")
    if is_kept(target):
        raise InputError(f"{option} {path}: kgcal keeps its own files there: write to another place")
    texts = [text for value in given for text in (value if isinstance(value, list | tuple) else [value])]
    paths = [Path(part.strip()) for text in texts if isinstance(text, str | Path) for part in str(text).split(",")]
    same = [place for place in paths if place.name and place_of(place) == target]
    if len(same) > 1:
        raise InputError(f"{option} {path}: the command names this file twice: write to another one")
    note_output(target)


Cells = dict[str, list[str]]  # column -> a text for each row


def show(console: Terminal, result: Result) -> None:
    """Print a result: its tables with their sentences, its sentences, and the places of its files."""
    if result.verdict:
        console.print(result.verdict, style="bold")
    for number, table in enumerate(result.tables):
        if number:
            console.print()
        show_table(console, table)
    if len(result.tables) > 1 and result.sentences:
        console.print()
    _say(console, result.sentences)
    _say(console, [f"{name}: {place}" for name, place in result.files.items() if place])
    if result.linked:
        from tasks.workspace.services import ui_command

        _say(console, [f"run: {result.run}", f"MLflow: {ui_command()}"])


def show_table(console: Terminal, shown: ResultTable) -> None:
    """Print a heading, a table with the columns that fit, and the sentences below it."""
    if shown.title:
        console.print(shown.title, style="bold", soft_wrap=True)
    if shown.rows:
        cells = {name: [printable(row[name]) for row in shown.rows] for name in shown.rows[0]}
        numbers = set(cells) - set(shown.words)
        dropped = _drop(shown, cells, numbers, console.width)
        console.print(_fitted(shown, cells, numbers, console.width))
        _say(console, dropped)
    _say(console, shown.notes, soft_wrap=not console.is_terminal)


def _say(console: Terminal, lines: Sequence[str], soft_wrap: bool = True) -> None:
    """Print lines. With soft wrap, a line stays whole, so that a command or a path in it can be copied."""
    for line in lines:
        console.print(line, soft_wrap=soft_wrap)


def _drop(shown: ResultTable, cells: Cells, numbers: Collection[str], width: int) -> list[str]:
    """Remove the columns that do not fit from the cells. Return lines that name them."""
    equal = [name for name in shown.equal if name in cells and len(set(cells[name]) - {""}) == 1]
    first = [*shown.drops[:1], *equal]
    same: list[str] = []
    missing: list[str] = []
    for name in (*first, shown.ids, *shown.drops[1:]):
        widths = [_widest(*column) if name in first else _narrowest(*column, numbers) for column in cells.items()]
        if _total(widths, GAP if name in first else NARROW_GAP) <= width:
            break
        if name and name == shown.ids and name not in missing and len(max(cells.get(name, [""]), key=len)) > SHORT_ID:
            cells[name] = [text[:SHORT_ID] for text in cells[name]]
        elif name in cells:
            text = max(cells.pop(name))
            same += [f"{_in_line(name)} {text}"] if name in equal else []
            missing += [] if name in equal else [_in_line(name)]
    if shown.ids in cells and any(cells[shown.ids][n] != row[shown.ids] for n, row in enumerate(shown.rows)):
        missing.append(f"full {_in_line(shown.ids)} ids")
    lines = [f"in every row: {', '.join(same)}"] if same else []
    return lines + ([f"not shown: {', '.join(missing)} (use a wider terminal, or a file)"] if missing else [])


def _fitted(shown: ResultTable, cells: Cells, numbers: Collection[str], width: int) -> Table:
    """Return the table with at most `width` characters per line, or with its least width if that is larger.

    The widest columns wrap first.
    """
    widths = {name: _widest(name, texts) for name, texts in cells.items()}
    least = {name: _narrowest(name, texts, numbers) for name, texts in cells.items()}
    gap = GAP if _total(least.values(), GAP) <= width else NARROW_GAP
    while _total(widths.values(), gap) > width and (wide := [name for name in widths if widths[name] > least[name]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for name in cells:
        table.add_column(name, justify="right" if name in numbers else "left", width=widths[name])
    for number, row in enumerate(zip(*cells.values(), strict=True)):
        marked = {name for name, text in zip(cells, row, strict=True) if name in numbers and text.endswith("*")}
        marked |= {name for name in cells if (number, name) in shown.best}
        texts = zip(cells, row, strict=True)
        table.add_row(*(Text(text, "bold green") if name in marked else text for name, text in texts))
    return table


def _widest(name: str, texts: Sequence[str]) -> int:
    """Return the width of a column in characters if no cell wraps."""
    return max(map(cell_len, [*name.split("\n"), *texts]))


def _narrowest(name: str, texts: Sequence[str], numbers: Collection[str]) -> int:
    """Return the width of a column in characters if every cell of words wraps at each of its spaces."""
    words = [word for text in texts for word in ([text] if name in numbers else text.split())]
    return max(map(cell_len, [*name.split(), *words]), default=0)


def _total(widths: Collection[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _in_line(name: str) -> str:
    return name.replace("\n", " ")
