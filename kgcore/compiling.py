"""torch.compile where a C++ compiler exists, plain PyTorch otherwise."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from kgcore.errors import KgcalWarning, first_line

T = TypeVar("T")


def compile_if_possible(
    function: Callable[..., T], doing: str, instead: Callable[..., T] | None = None
) -> Callable[..., T]:
    """The function, compiled at its first call.

    doing    what the function is part of, for the warning: "training"
    instead  called if compiling fails; None = the function itself, not compiled

    If compiling fails, as it does without a compiler, one KgcalWarning says that `doing` is slower.
    """
    # isolated: otherwise all functions from the same source share a cache of 8, and the ninth would not be compiled
    fast = torch.compile(function, dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]
    failed = False

    def call(*args: Any) -> T:
        nonlocal failed
        if not failed:
            try:
                result: T = fast(*args)
                return result
            except Exception as error:  # PyTorch does not document what it raises for a missing or broken compiler
                failed = True
                reason = f"{doing} runs without torch.compile, which is slower: {first_line(error)}"
                warnings.warn(reason, KgcalWarning, stacklevel=2)
        return (instead or function)(*args)

    return call
