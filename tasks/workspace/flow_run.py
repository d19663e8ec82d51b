"""The Prefect flow run of the calling code, and the server that the user names. No other file reads Prefect's context.

Code in a flow run has loaded Prefect. So a process without Prefect gets its answer without the import of Prefect, which
takes more than a second.
"""

import contextvars
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from kgcore.errors import NO_SPACE, InputError, OutageError, first_line
from tasks.workspace.services import RECORDER, recorded_services


@dataclass(frozen=True)
class FlowRun:
    """A Prefect flow run.

    id          its id, a UUID
    started     when it started, in seconds since 1970
    parameters  the parameters of its flow, by name
    """

    id: str
    started: float
    parameters: Mapping[str, Any]


def current_flow_run() -> FlowRun | None:
    """Return the flow run of the calling code; None outside a flow run."""
    if "prefect.context" not in sys.modules:
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return None
    return FlowRun(str(context.flow_run.id), context.start_time.timestamp(), context.parameters or {})


def emit(event: str, resource: str, payload: Mapping[str, Any]) -> None:
    """Send an event about a resource to the Prefect server of the flow run. Outside a flow run, do nothing."""
    if current_flow_run() is None:
        return
    from prefect.events import emit_event  # a flow run has loaded Prefect

    name = resource.rpartition(".")[2]
    emit_event(event, {"prefect.resource.id": resource, "prefect.resource.name": name}, payload=dict(payload))


def tag(flow_run: str, *tags: str) -> None:
    """Add tags to a flow run, without those that are ''."""
    from prefect.client.orchestration import get_client  # a flow run has loaded Prefect

    with get_client(sync_client=True) as client:
        known = client.read_flow_run(UUID(flow_run)).tags
        client.update_flow_run(UUID(flow_run), tags={*known, *filter(None, tags)})


def in_task() -> bool:
    """Return whether the calling code runs inside a Prefect task."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import TaskRunContext

    return TaskRunContext.get() is not None


def named_api() -> str | None:
    """Return the API URL of the Prefect server that Prefect's settings name; None if they name no server.

    Prefect is loaded only if it is loaded already, because a program may have changed its settings, or if one of the
    sources of its settings may name a server.
    """
    if "prefect.settings" not in sys.modules and not _may_name_a_server():
        return None
    from prefect.settings import PREFECT_API_URL

    url: str | None = PREFECT_API_URL.value()
    return url


def permanent_api() -> str | None:
    """Return the API URL of the Prefect server that Prefect's settings name; None for the recorder, or without one."""
    url, recorder = named_api(), recorded_services().get(RECORDER)
    return None if recorder is not None and url == f"{recorder.url}/api" else url


def _may_name_a_server() -> bool:
    """Return whether the environment, a file in the working folder or a saved profile may name a Prefect server."""
    variables = {name.upper() for name in os.environ}  # Prefect reads them in any case
    if "PREFECT_PROFILE" in variables or any(name.startswith("PREFECT_API") for name in variables):
        return True
    return Path("prefect.toml").exists() or any(word in text for word, text in _files())


def _files() -> Iterator[tuple[str, str]]:
    """Yield, for each file that may name a server among other things, the word of that setting and the file's text."""
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    profiles = os.environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml"
    for word, path in (("prefect_", ".env"), ("tool.prefect", "pyproject.toml"), ("prefect_api", profiles)):
        try:
            yield word, Path(path).expanduser().read_text(encoding="utf-8", errors="replace").lower()
        except OSError:  # there is no such file, or Prefect cannot read it either
            continue


# what a terminal would obey: all controls but tab and line feed, marks that reverse the reading order, lone surrogates
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text with escapes such as \\x1b in place of control characters, as Python writes them."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Terminal(Console):
    """A console that prints every text as it is: without markup and emoji, and with control characters as escapes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects. Raises InputError if the disk of the file that the output goes to is full."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise InputError(FULL_OUTPUT.format(error.strerror)) from error

    def render_str(self, text: str, **options: Any) -> Text:
        """Return what the console prints of a text, also in the cell of a table, whatever the call asks for."""
        return super().render_str(printable(text), **options | {"markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the parts of what is printed, such as a log line or a bar, whose texts `render_str` has not seen."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(printable(part.text), part.style)


FULL_OUTPUT = "the standard output takes no more ({}): free space and run the same command again"
console = Terminal(stderr=True)
log = logging.getLogger("kgcal")
OUTAGE_PAUSE = 60.0  # seconds until the next try to write to a store that is away: a try may take 10 s


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a progress bar on the terminal and on the flow run. Yield a function `move(done, word)` that updates both.

    total  value of `done` at the end

    `word` is a short text that is shown with the bar. If the output is not a terminal, no bar is drawn there.
    """
    title_column, word_column = (
        TextColumn(field, markup=False) for field in ("{task.description}", "{task.fields[word]}")
    )
    columns = (title_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), word_column)
    artifact = _ProgressArtifact(title, total)
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars,
        artifact.written(),
    ):
        bar = bars.add_task(printable(title), total=total, word="")

        def move(done: int, word: str = "") -> None:
            bars.update(bar, completed=done, word=printable(word))
            artifact.move(done, word)

        yield move


class _ProgressArtifact:
    """The progress that the flow run shows: a percentage and a line of text. Its key is the first word of the title."""

    SECONDS = 5.0

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._now: tuple[float, str] = (0.0, title)
        self._written: tuple[float, str] | None = None
        self._artifact: UUID | None = None
        self._warned = False

    def move(self, done: int, word: str = "") -> None:
        text = f"{self._title}: {done:,} of {self._total:,}"
        self._now = (100 * done / self._total, f"{text}; {word}" if word else text)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Write the artifact during the block, every SECONDS seconds and at the end. Outside a flow run, do nothing.

        A separate thread writes it, so that the work does not wait for the server and does not fail with it.
        """
        if current_flow_run() is None:
            yield
            return
        ended = threading.Event()

        def write_until_the_end() -> None:
            self._write()
            while not ended.wait(self.SECONDS):
                self._write()
            self._write()

        context = contextvars.copy_context()  # tells the thread the flow run and the server
        writer = threading.Thread(target=context.run, args=(write_until_the_end,), daemon=True)
        writer.start()
        try:
            yield
        finally:
            ended.set()
            writer.join(timeout=5)

    def _write(self) -> None:
        now = self._now
        if now == self._written:
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact  # a flow run has loaded it

        try:
            if self._artifact is None:
                created = create_progress_artifact(now[0], self._title.split()[0], now[1])
                assert isinstance(created, UUID)
                self._artifact = created
            else:
                update_progress_artifact(self._artifact, *now)
            self._written = now
        except Exception as error:  # an error of the server must not end the work
            if not self._warned:
                log.warning("the progress cannot be shown on the Prefect flow run: %s", first_line(error))
            self._warned = True


class SeriesLog:
    """A buffer for a metric with one value per step, which is written at intervals of at least `seconds`.

    write  function that writes values; its argument `first` is the step of the first one, `wait` whether to wait while
           the store is away
    """

    def __init__(self, write: Callable[..., None], seconds: float) -> None:
        self._write, self._seconds, self._flushed = write, seconds, time.monotonic()
        self._first, self._values, self._is_away = 1, list[float](), False

    def add(self, step: int, value: float) -> None:
        """Add the value of a step. The first step may have any number, each later one is the step before plus 1."""
        if not self._values:
            self._first = step
        self._values.append(value)
        if time.monotonic() - self._flushed >= self._seconds:
            try:
                self.flush(wait=False)
            except OutageError as error:  # a later write contains these values
                if not self._is_away:
                    log.warning("the work goes on without the MLflow store: %s", first_line(error.__cause__ or error))
                self._is_away, self._flushed = True, time.monotonic() + OUTAGE_PAUSE

    def flush(self, wait: bool = True) -> None:
        """Write the values that are not written yet. Raises OutageError."""
        self._write(self._values, first=self._first, wait=wait)
        self._values, self._flushed, self._is_away = [], time.monotonic(), False


class DownloadBar:
    """The progress bar of a download, with the methods of `DownloadProgress`."""

    def __init__(self, title: str) -> None:
        self._bars = Progress(console=console, transient=True, disable=not console.is_terminal)
        self._bar = self._bars.add_task(title, total=None)
        self._bars.start()

    @property
    def total(self) -> int:
        return int(self._bars.tasks[0].total or 0)

    @total.setter
    def total(self, value: int) -> None:
        self._bars.update(self._bar, total=value)

    def update(self, n: int) -> None:
        self._bars.update(self._bar, advance=n)

    def reset(self) -> None:
        self._bars.reset(self._bar, total=self.total)

    def close(self) -> None:
        self._bars.stop()
