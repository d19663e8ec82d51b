"""Corruption strategies, one file each. `STRATEGIES.get("uniform")` imports and returns the class."""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.corruptions.base import Strategy

STRATEGIES: "Registry[type[Strategy]]" = Registry(
    "corruption strategy", "kgcore.corruptions", helpers=("base", "audit", "choice", "mixture", "sides")
)
TAUGHT = frozenset({"kbgan"})  # learn while a model is trained, and know nothing without
SIDES = ("subject", "object", "both", "bernoulli")
