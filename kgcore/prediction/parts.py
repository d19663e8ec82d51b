"""Work that is divided into parts: the parts can be done one after the other, or by several machines."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

P = TypeVar("P")
R = TypeVar("R")
OnPart = Callable[[float], None]  # called with the share of the work that is done, from 0 to 1


class EachPart(Protocol):
    """Does `function(*shared, part)` for each part.

    Yields the number of each part and its result, in the order in which the results are ready. A function that is
    given an `EachPart` has the same result, to the last bit, whatever that order is.
    """

    def __call__(
        self, function: Callable[..., R], shared: Sequence[object], parts: Sequence[P], /
    ) -> Iterator[tuple[int, R]]: ...


def one_by_one(function: Callable[..., R], shared: Sequence[object], parts: Sequence[P], /) -> Iterator[tuple[int, R]]:
    """Do the parts one after the other, in this process."""
    for number, part in enumerate(parts):
        yield number, function(*shared, part)
