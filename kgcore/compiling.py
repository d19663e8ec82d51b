"""torch.compile, where there is a compiler for it."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from kgcore.errors import KgcalWarning, first_line

T = TypeVar("T")


def compile_if_possible(
    function: Callable[..., T], doing: str, instead: Callable[..., T] | None = None
) -> Callable[..., T]:
    """The function through torch.compile; where that fails for want of a compiler, `instead`, or the function as it is,
    with one warning that `doing` goes on more slowly."""
    # isolated: otherwise all functions of one source share a cache of 8, and the ninth training would not be compiled
    fast = torch.compile(function, dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]
    failed = False

    def call(*args: Any) -> T:
        nonlocal failed
        if not failed:
            try:
                result: T = fast(*args)
                return result
            except Exception as error:  # what a missing or broken compiler raises is not part of PyTorch's interface
                failed = True
                reason = f"{doing} goes on without torch.compile, more slowly: {first_line(error)}"
                warnings.warn(reason, KgcalWarning, stacklevel=2)
        return (instead or function)(*args)

    return call
