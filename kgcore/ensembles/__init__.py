"""Pools, one file each: how calibrated members become one probability. `POOLS.get("linear")` imports and returns the
class."""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.ensembles.base import Pool

POOLS: "Registry[type[Pool]]" = Registry(
    "pool", "kgcore.ensembles", helpers=("base", "disagreement", "ensemble", "fit", "folds", "judge", "newton")
)
