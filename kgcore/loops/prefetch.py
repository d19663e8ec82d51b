"""Prefetching in loops: ask the processor to load rows of a table before they are needed.

Rows at random places of a large table come from memory, one after the other, and a loop mostly waits for them. A
prefetch lets the processor load some of them at the same time. It changes no result.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kgcore.loops.compiled import Array, exact_part

LINE = 16  # float32 numbers of a cache line
AHEAD = 16  # rows


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
    """Ask the processor to load a row, which the code needs soon. Rows at random places are then read much faster."""
    for column in range(0, table.shape[1], LINE):
        _prefetch_line(table, row, column)  # type: ignore[call-arg]
