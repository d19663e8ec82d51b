"""Checks of the options of scoring functions, and the default of an option whose value depends on k."""

from enum import Enum
from typing import Final

from kgcore.errors import InputError


class Chosen(Enum):
    """The default of an option whose value the model computes. A command's help shows the name of this default."""

    CHOSEN_FROM_K = "chosen_from_k"

    def __repr__(self) -> str:
        return self.name


CHOSEN_FROM_K: Final = Chosen.CHOSEN_FROM_K


def whole(name: str, value: float, at_least: int = 1) -> int:
    """Return a count as an int. Raises InputError if the value is not a whole number, or is below `at_least`."""
    if not float(value).is_integer() or value < at_least:
        raise InputError(f"{name} is {value:g}: it must be a whole number of at least {at_least}")
    return int(value)


def check_norm(norm: float) -> float:
    """Return the n of an n-norm. Raises InputError if n is neither 1 nor 2."""
    if norm not in (1, 2):
        raise InputError(f"norm is {norm:g}: it must be 1 or 2")
    return float(norm)
