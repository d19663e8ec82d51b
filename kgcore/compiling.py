"""Compilation with torch.compile. If it fails, for example without a C++ compiler, plain PyTorch runs instead."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from kgcore.errors import KgcalWarning, first_line

T = TypeVar("T")


def compile_if_possible(function: Callable[..., T], doing: str) -> Callable[..., T]:
    """Return the function in a form that torch.compile compiles at its first call.

    doing  name of the work that the function does, for the warning, such as "training"

    If the compilation fails, the function itself is called, and one KgcalWarning says that `doing` is slower.
    """
    # Without isolate_recompiles, all functions with the same source share a cache of 8: the ninth is not compiled.
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
        return function(*args)

    return call
