"""The decorators of loops that Numba compiles for the CPU, and the place where the compiled code is stored.

loop        sums are computed in any order, which is several times as fast
exact_loop  numbers are computed as the code says: for integers, and for scores whose last bit counts
part        a part of loops, never called from Python
exact_part  the same, computed as the code says

Every loop and part is copied into its callers (`forceinline`). Otherwise a loop would exist twice: compiled on its own,
and as a part of its caller. The two may differ in the last bits. Which one runs would depend on whether the process
compiled them or read them from the disk.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
Array = npt.NDArray[np.float32]

SUMS = {"reassoc", "contract", "arcp", "nsz"}  # sums in any order; NaN and infinity stay, so a diverged loss is seen


class _Cache(FunctionCache):
    """Numba's store of compiled code, renewed if any loop changes.

    Numba renews it only if the file of the function itself changes. But a loop contains the code of loops that it calls
    from other files.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = (self._impl.locator.get_source_stamp(), _stamp())
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]


@cache
def _stamp() -> str:
    """Return a fingerprint of the source code of all loops."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _decorator(*, stored: bool, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        compiled: Any = njit(nogil=True, error_model="numpy", forceinline=True, **options)(function)
        if stored:
            compiled._cache = _Cache(function)
        return cast(Callable[P, R], compiled)

    return decorate


loop = _decorator(stored=True, fastmath=SUMS)
exact_loop = _decorator(stored=True, fastmath=False)  # not set, it would be that of the loop that is compiled first
part = _decorator(stored=False, fastmath=SUMS)
exact_part = _decorator(stored=False, fastmath=False)


def fits_cpu_loops(*tensors: Tensor) -> bool:
    """Return whether loops can work on the tensors: float32 numbers on the CPU."""
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
