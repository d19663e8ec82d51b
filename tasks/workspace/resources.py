"""The resources that runs share: cores, memory, the disk, the GPU for one run at a time, and a Dask cluster."""

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from kgcore.errors import NO_SPACE, InputError, KgcalError, first_line, masked
from tasks.workspace.flow_run import current_flow_run, permanent_api
from tasks.workspace.settings import home

if TYPE_CHECKING:  # torch takes more than a second to load: only commands that compute load it
    import torch

    from kgcore.workers import EachPart

GPU_LIMIT = "gpu"  # name of a Prefect concurrency limit
DASK, THREADS = "dask", "threads"
CONNECT_SECONDS = 30
# how libraries say it that do not raise OSError, or without its number
NO_SPACE_TEXT = re.compile(
    r"No space left|File too large|Disk quota|disk is full|disk I/O error|readonly database|requested and \d+ written"
)
P = TypeVar("P")
R = TypeVar("R")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory(device: "torch.device") -> int:
    """Return the bytes of memory that are free on a device. Memory limits of containers are not seen."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def check_room(what: str, memory: int = 0, disk: int = 0) -> None:
    """Raise InputError if work needs more bytes than are free in memory or on the disk of KGCAL_HOME."""
    free = {"memory": int(psutil.virtual_memory().available), f"the disk of {home()}": shutil.disk_usage(home()).free}
    for (place, available), needed in zip(free.items(), (memory, disk), strict=True):
        if needed > available:
            raise InputError(
                f"{what} needs about {needed / 1e9:,.1f} GB, and {available / 1e9:,.1f} GB of {place} are free"
            )


def full_disk(error: BaseException | None) -> str | None:
    """Return the sentence for an error whose cause is a disk that takes no more data; None for another error."""
    while error is not None:
        number, name, copy = (getattr(error, field, None) for field in ("errno", "filename", "filename2"))
        if number in NO_SPACE or NO_SPACE_TEXT.search(str(error)):
            place = Path(os.fsdecode(copy or name)) if name else home()
            folder = place if not name or place.is_char_device() else place.parent
            reason = os.strerror(number) if number in NO_SPACE else first_line(error)
            return f"nothing more can be written to {folder} ({reason}): free space and run the same command again"
        error = error.__cause__ or error.__context__
    return None


def full_memory(error: BaseException) -> str | None:
    """Return the sentence for an error of memory; None for another error."""
    if not isinstance(error, MemoryError):
        return None
    return f"there is not enough memory ({first_line(error)}): use smaller settings or less data"


@contextmanager
def input_error(sentence: str) -> Iterator[None]:
    """Replace errors in the block but ours and a full disk by an InputError: `sentence`, a colon and the reason."""
    try:
        yield
    except KgcalError:
        raise
    except Exception as error:  # each kind of storage raises its own types of errors
        if full_disk(error):
            raise
        missing = " (for S3: pip install 'kgcal[s3]')" if isinstance(error, ImportError) else ""
        raise InputError(f"{sentence}: {masked(first_line(error))}{missing}") from error


@contextmanager
def gpu_slot(device: "torch.device") -> "Iterator[torch.device]":
    """Wait for a free slot of Prefect's concurrency limit GPU_LIMIT, hold it during the block, and yield the device.

    In three cases no slot is taken: the device is a CPU; the code runs outside a flow run; or no Prefect server
    runs but the recorder, which does not free the slots of killed processes. If the server stops answering and the
    slot cannot be renewed, the block continues.

    Raises InputError if the server does not have the limit.
    """
    with ExitStack() as slot:
        if device.type == "cuda" and current_flow_run() is not None and permanent_api():
            from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError  # a flow run has loaded Prefect
            from prefect.concurrency.sync import concurrency

            try:
                slot.enter_context(concurrency(GPU_LIMIT, strict=True, raise_on_lease_renewal_failure=False))
            except ConcurrencySlotAcquisitionError as error:
                raise InputError(
                    f"the Prefect server gave no slot for the GPU, {first_line(error)}: create the limit with "
                    f"`prefect gcl create {GPU_LIMIT} --limit 1`"
                ) from error
        yield device


@contextmanager
def workers(runner: str) -> Iterator["EachPart"]:
    """Yield what does parts of a work, with the same results to the bit wherever they are done.

    runner  `threads` or `threads:N`: in this process. `dask`: on a cluster that this process starts on this machine,
            with a worker for each core. `dask://HOST:PORT`: on the cluster of that scheduler, whose workers have kgcal
            installed

    Raises InputError for another runner, if the extra `dask` is not installed, or if the scheduler does not answer.
    """
    from kgcore.workers import one_by_one

    if runner.startswith(THREADS):
        yield one_by_one
    elif runner == DASK or runner.startswith("dask://"):
        with _client(runner) as client:
            yield partial(_on_dask, client)
    else:
        raise InputError(f"--runner is {runner!r}: it must be threads, dask or dask://HOST:PORT")


def each_part(
    runner: str, function: Callable[..., R], shared: Sequence[object], parts: Sequence[P]
) -> Iterator[tuple[int, R]]:
    """Yield the number of each part and `function(*shared, part)`, in the order in which the parts are ready.

    The `workers` of the runner do the parts. A cluster receives the shared objects once.
    """
    with workers(runner) as each:
        yield from each(function, shared, parts)


def _on_dask(
    client: Any, function: Callable[..., R], shared: Sequence[object], parts: Sequence[P]
) -> Iterator[tuple[int, R]]:
    from distributed import CancelledError, KilledWorker, as_completed
    from distributed.comm.core import CommClosedError

    ended = (CancelledError, KilledWorker, CommClosedError)  # the last before the client knows that it is cut off
    try:
        held = client.scatter(list(shared), broadcast=True) if shared else []  # a set alone would be taken apart
        futures = {client.submit(function, *held, part, pure=False): number for number, part in enumerate(parts)}
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            yield futures[future], future.result()
    except Exception as error:
        if isinstance(error, ended) or client.status != "running":
            raise InputError(f"the Dask cluster has ended, or its workers die: {first_line(error)}") from error
        raise


def _client(runner: str) -> Any:
    """Return a client of the cluster. Raises InputError if there is none."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("--runner dask needs the extra: pip install 'kgcal[dask]'") from None
    logging.getLogger("distributed").setLevel(logging.WARNING)  # INFO has a line for every connection
    if runner == DASK:
        return Client(local_cluster(cores()))  # type: ignore[no-untyped-call]
    try:
        address = f"tcp:{runner.removeprefix('dask:')}"
        return Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(f"the Dask scheduler of --runner {runner} does not answer: {first_line(error)}") from error


def local_cluster(workers: int) -> Any:
    """Start a Dask cluster on this machine, with so many workers of one thread.

    By default, Dask has a worker return every freed array to the system. Training then takes a fifth longer.
    """
    import dask
    from distributed import LocalCluster

    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1)
    with dask.config.set({"distributed.nanny.pre-spawn-environ": one_thread}):
        return LocalCluster(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)  # type: ignore[no-untyped-call]
