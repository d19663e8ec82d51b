"""Progress bars on the terminal; silent where there is none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

console = Console(stderr=True)


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar that is moved by calling it with how much is done and a word on how it goes."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, TextColumn("{task.fields[word]}"), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        bar = bars.add_task(title, total=total, word="")

        def move(done: int, word: str = "") -> None:
            bars.update(bar, completed=done, word=word)

        yield move


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
