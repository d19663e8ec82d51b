"""Where work is done: on a device; and, in parts, one after the other, by threads, or by several machines.

The threads share the parts of a loop whose code releases Python's lock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from kgcore.errors import InputError

if TYPE_CHECKING:  # torch takes more than a second to load
    import torch

P = TypeVar("P")
R = TypeVar("R")
OnPart = Callable[[float], None]  # called with the share of the work that is done, from 0 to 1
A = TypeVar("A")
Job = Callable[[], None]


class EachPart(Protocol):
    """Does `function(*shared, part)` for each part.

    Yields the number of each part and its result, in the order in which the results are ready. A function that is
    given an `EachPart` has the same result, to the last bit, whatever that order is.
    """

    def __call__(
        self, function: Callable[..., R], shared: Sequence[object], parts: Sequence[P], /
    ) -> Iterator[tuple[int, R]]: ...


def one_by_one(function: Callable[..., R], shared: Sequence[object], parts: Sequence[P], /) -> Iterator[tuple[int, R]]:
    """Do the parts one after the other, in this process."""
    for number, part in enumerate(parts):
        yield number, function(*shared, part)


def parts(work: Callable[..., None], count: int, size: int, *arguments: object) -> list[Job]:
    """Return jobs that call work(*arguments, start, stop) for parts of at most `size` that cover range(count)."""
    return [partial(work, *arguments, start, min(start + size, count)) for start in range(0, count, size)]


def in_order(function: Callable[[A], R], arguments: Iterable[A], threads: int) -> Iterator[R]:
    """Yield the result for each argument, in their order. `threads` threads compute as many results ahead."""
    waiting = deque[Future[R]]()
    with ThreadPoolExecutor(threads) as pool:
        for argument in arguments:
            waiting.append(pool.submit(function, argument))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class Workers:
    """`threads` threads, the caller's among them. The others wait without using a core.

    A thread takes the next part when it has finished one, so a thread on a busy core does less of the work.
    """

    def __init__(self, threads: int) -> None:
        self._others = threads - 1
        self._pool = ThreadPoolExecutor(self._others) if self._others > 0 else None

    def run(self, work: Callable[[int, int], None], count: int, part: int) -> None:
        """Call work(start, stop) for parts of at most `part` that cover range(count), in any order and thread."""
        starts = iter(range(0, count, part))  # `next` takes each of them once: Python's lock is held

        def take() -> None:
            for start in starts:
                work(start, min(start + part, count))

        helpers = min(self._others, -(-count // part) - 1)
        waiting = [self._pool.submit(take) for _ in range(helpers)] if self._pool else []
        take()
        for future in waiting:
            if not future.cancel():  # a thread that has not begun has nothing left to do
                future.result()

    def run_all(self, jobs: Sequence[Job]) -> None:
        """Call every job once, in any order and thread."""

        def work(start: int, stop: int) -> None:
            for job in jobs[start:stop]:
                job()

        self.run(work, len(jobs), 1)


def find_device(name: str) -> "torch.device":
    """Return the torch device `name`; for `auto`, the GPU if there is one, otherwise the CPU.

    Raises InputError if the device does not exist on this machine.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(f"there is no device {name!r}: it must be auto, cpu, cuda or cuda:N") from None
    available = torch.cuda.device_count() if device.type == "cuda" else int(device.type == "cpu")
    if (device.index or 0) >= available:
        raise InputError(f"the device {name!r} is not available here: use cpu or auto")
    return device
