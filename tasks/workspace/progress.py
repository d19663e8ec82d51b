"""Progress: bars on the terminal, an artifact on the Prefect flow run, the series of a metric in MLflow."""

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kgcore.errors import first_line
from tasks.workspace.flow_run import current_flow_run

console = Console(stderr=True)
log = logging.getLogger("kgcal")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a progress bar on the terminal and on the flow run. Yield a function `move(done, word)` that updates both.

    total  value of `done` at the end

    `word` is a short text that is shown with the bar. If the output is not a terminal, no bar is drawn there.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    word_column = TextColumn("{task.fields[word]}")
    artifact = _ProgressArtifact(title, total)
    with (
        Progress(*columns, word_column, console=console, transient=True, disable=not console.is_terminal) as bars,
        artifact.written(),
    ):
        bar = bars.add_task(title, total=total, word="")

        def move(done: int, word: str = "") -> None:
            bars.update(bar, completed=done, word=word)
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

    write  function that writes values; its argument `first` is the step of the first one
    """

    def __init__(self, write: Callable[..., None], seconds: float) -> None:
        self._write, self._seconds, self._flushed = write, seconds, time.monotonic()
        self._first, self._values = 1, list[float]()

    def add(self, step: int, value: float) -> None:
        """Add the value of a step. The first step may have any number, each later one is the step before plus 1."""
        if not self._values:
            self._first = step
        self._values.append(value)
        if time.monotonic() - self._flushed >= self._seconds:
            self.flush()

    def flush(self) -> None:
        """Write the values that are not written yet."""
        self._write(self._values, first=self._first)
        self._values, self._flushed = [], time.monotonic()


class DownloadBar:
    """The progress bar of a download, with the methods that pooch calls."""

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
