"""Divides work into parts: one after the other on this machine, or at the same time on a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from kgcore.errors import InputError, first_line
from kgcore.workers import one_by_one
from tasks.workspace.resources import cores

P = TypeVar("P")
R = TypeVar("R")
DASK, THREADS = "dask", "threads"
CONNECT_SECONDS = 30


def each_part(
    runner: str, function: Callable[..., R], shared: Sequence[object], parts: Sequence[P]
) -> Iterator[tuple[int, R]]:
    """Yield the number of each part and `function(*shared, part)`, in the order in which the parts are ready.

    runner  `threads` or `threads:N`: in this process. `dask`: on a cluster that this process starts on this machine.
            `dask://HOST:PORT`: on the cluster of that scheduler, whose workers have kgcal installed
    shared  objects that every part needs; a cluster receives them once

    Raises InputError for another runner, if the extra `dask` is not installed, or if the scheduler does not answer.
    """
    if runner.startswith(THREADS):
        yield from one_by_one(function, shared, parts)
    elif runner == DASK or runner.startswith("dask://"):
        yield from _on_dask(runner, function, shared, parts)
    else:
        raise InputError(f"--runner is {runner!r}: it must be threads, dask or dask://HOST:PORT")


def _on_dask(
    runner: str, function: Callable[..., R], shared: Sequence[object], parts: Sequence[P]
) -> Iterator[tuple[int, R]]:
    with _client(runner) as client:
        held = client.scatter(list(shared), broadcast=True)  # a set alone would be taken apart
        futures = {client.submit(function, *held, part, pure=False): number for number, part in enumerate(parts)}
        from distributed import as_completed

        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            yield futures[future], future.result()


def _client(runner: str) -> Any:
    """Return a client of the cluster. Raises InputError if there is none."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("--runner dask needs the extra: pip install 'kgcal[dask]'") from None
    if runner == DASK:
        workers = max(1, cores() // 2)
        options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
        return Client(LocalCluster(workers, **options))  # type: ignore[no-untyped-call]
    try:
        address = f"tcp:{runner.removeprefix('dask:')}"
        return Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(f"the Dask scheduler of --runner {runner} does not answer: {first_line(error)}") from error
