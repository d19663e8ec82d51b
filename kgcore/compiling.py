"""torch.compile if there is a C++ compiler, plain PyTorch otherwise."""

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

    doing    the activity that calls the function, for the warning: "training"
    instead  function to call if compiling fails; None = the function itself, not compiled

    If compiling fails, for example without a compiler, one KgcalWarning says that `doing` is slower.
    """
    # Without isolate_recompiles all functions from one source share a cache of 8: the ninth is not compiled.
    fast = torch.compile(function, dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]
    failed = False

    def call(*args: Any) -> T:
        nonlocal failed
        if not failed:
            try:
                result: T = fast(*args)
                return result
            except Exception as error:  # PyTorch does not document its errors for a missing or broken compiler
                failed = True
                reason = f"{doing} runs without torch.compile, which is slower: {first_line(error)}"
                warnings.warn(reason, KgcalWarning, stacklevel=2)
        return (instead or function)(*args)

    return call
