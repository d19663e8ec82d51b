"""The decorators of loops that Numba compiles for the CPU, the store of the compiled code, and prefetching.

The code is stored on disk (`__pycache__`, or NUMBA_CACHE_DIR), so only the first use on a machine waits for it.

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
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import intrinsic
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
Array = npt.NDArray[np.float32]

LINE = 16  # float32 numbers of a cache line
AHEAD = 16  # rows to prefetch
SUMS = {"reassoc", "contract", "arcp", "nsz"}  # sums in any order; NaN and infinity stay, so a diverged loss is seen


class _Cache(FunctionCache):
    """Numba's store of compiled code, renewed if any loop changes.

    Numba renews it only if the file of the function itself changes. But a loop contains the code of loops that it calls
    from other files.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = (self._impl.locator.get_source_stamp(), _stamp(Path(function.__code__.co_filename).parent))
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]


@cache
def _stamp(folder: Path) -> str:
    """Return a fingerprint of the source code of a folder and of this module."""
    files = [Path(__file__), *sorted(folder.glob("*.py"))]
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


@intrinsic
def _prefetch_line(typing: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask the processor to load the cache line of an element of a matrix, which the code needs soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], matrix, arguments[1:])  # type: ignore[no-untyped-call]
        number = ir.IntType(32)
        declared = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        load = cgutils.get_or_insert_function(builder.module, declared, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        builder.call(load, [place, number(0), number(3), number(1)])  # a read, to be kept in the cache, of data
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@exact_part
def prefetch(table: Array, row: int) -> None:
    """Ask the processor to load a row, which the code needs soon.

    Rows at random places of a large table come from memory, one after the other, and a loop mostly waits for them. A
    prefetch lets the processor load some of them at the same time. It changes no result.
    """
    for column in range(0, table.shape[1], LINE):
        _prefetch_line(table, row, column)  # type: ignore[call-arg]
