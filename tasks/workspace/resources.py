"""The resources that runs share: the cores of the machine and, one run at a time, the GPU."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import psutil

from kgcore.errors import InputError, first_line
from tasks.workspace.flow_run import current_flow_run
from tasks.workspace.prefect_api import permanent_api

if TYPE_CHECKING:  # torch takes more than a second to load: only commands that compute load it
    import torch

GPU_LIMIT = "gpu"  # name of a Prefect concurrency limit


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_device(name: str) -> "torch.device":
    """Return the torch device `name`; for `auto`, the GPU if there is one, otherwise the CPU.

    Raises InputError if the device does not exist on this machine.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"there is no device {name!r}: it must be auto, cpu, cuda or cuda:N") from None
    available = torch.cuda.device_count() if device.type == "cuda" else int(device.type == "cpu")
    if (device.index or 0) >= available:
        raise InputError(f"the device {name!r} is not available here: use cpu or auto")
    return device


def free_memory(device: "torch.device") -> int:
    """Return the bytes of memory that are free on a device. Memory limits of containers are not seen."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


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
