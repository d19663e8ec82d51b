"""Progress: bars on the terminal, silent where there is none, and an artifact on a Prefect flow run."""

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kgcore.errors import first_line

console = Console(stderr=True)
log = logging.getLogger("kgcal")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar that is moved by calling it with how much is done and a word on how it goes; shown on the flow run, too."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Progress(
            *columns,
            TextColumn("{task.fields[word]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ) as bars,
        flow_run_progress(title, total) as tell,
    ):
        bar = bars.add_task(title, total=total, word="")

        def move(done: int, word: str = "") -> None:
            bars.update(bar, completed=done, word=word)
            tell(done, word)

        yield move


@contextmanager
def flow_run_progress(title: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A progress artifact, with the title's first word as its key, that is moved like a bar; outside a flow run none.

    A thread of its own writes it, every few seconds: what is going on waits for no server, and ends for none.
    """
    artifact = _ProgressArtifact(title, total)
    if FlowRunContext.get() is None:
        yield artifact.move
        return
    ended = threading.Event()
    context = contextvars.copy_context()  # it knows the run, and the server
    writer = threading.Thread(target=context.run, args=(artifact.write_until, ended), daemon=True)
    writer.start()
    try:
        yield artifact.move
    finally:
        ended.set()
        writer.join(timeout=5)


class _ProgressArtifact:
    SECONDS = 5.0

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._now: tuple[float, str] = (0.0, title)
        self._written: tuple[float, str] | None = None
        self._artifact: UUID | None = None
        self._warned = False

    def move(self, done: int, word: str = "") -> None:
        said = f"{self._title}: {done:,} of {self._total:,}"
        self._now = (100 * done / self._total, f"{said}; {word}" if word else said)

    def write_until(self, ended: threading.Event) -> None:
        """Write it now, every few seconds, and once more at the end."""
        self._write()
        while not ended.wait(self.SECONDS):
            self._write()
        self._write()

    def _write(self) -> None:
        now = self._now
        if now == self._written:
            return
        try:
            if self._artifact is None:
                made = create_progress_artifact(now[0], self._title.split()[0], now[1])
                assert isinstance(made, UUID)
                self._artifact = made
            else:
                update_progress_artifact(self._artifact, *now)
            self._written = now
        except Exception as error:  # whatever a server says
            if not self._warned:
                log.warning("the flow run in Prefect does not show how far it is: %s", first_line(error))
            self._warned = True


class DownloadBar:
    """What pooch reports a download to."""

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
