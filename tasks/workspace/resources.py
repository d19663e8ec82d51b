"""What runs share: the cores of the machine, and, one at a time, the GPU: Prefect's concurrency limit `gpu`."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL

from kgcore.errors import InputError, first_line

if TYPE_CHECKING:  # torch takes more than a second to load: those who compute wait for it, and nobody else
    import torch

LIMIT = "gpu"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_device(name: str) -> "torch.device":
    """The torch device of that name; auto takes a GPU where there is one. Raises InputError where it is not there."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"there is no device {name!r}: auto, cpu, cuda or cuda:N is needed") from None
    there = torch.cuda.device_count() if device.type == "cuda" else int(device.type == "cpu")
    if (device.index or 0) >= there:
        raise InputError(f"the device {name!r} is not available here: use cpu or auto")
    return device


@contextmanager
def gpu_slot(device: "torch.device") -> "Iterator[torch.device]":
    """The device, with a slot of the limit for as long as the block runs: waited for where others have them all. On a
    CPU, outside a flow run, and on the temporary server of one command, which nobody shares, none is taken.

    Raises InputError where the server has no such limit. A slot whose renewal fails, because the server is gone for a
    moment, ends nothing.
    """
    with ExitStack() as held:
        if device.type == "cuda" and FlowRunContext.get() is not None and PREFECT_API_URL.value():
            try:
                held.enter_context(concurrency(LIMIT, strict=True, raise_on_lease_renewal_failure=False))
            except ConcurrencySlotAcquisitionError as error:
                raise InputError(
                    f"the Prefect server gives no slot for the GPU, {first_line(error)}: make the limit with "
                    f"`prefect gcl create {LIMIT} --limit 1`"
                ) from error
        yield device
