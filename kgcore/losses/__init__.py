"""Training losses, one file each. `LOSSES.get("nll")` imports and returns the class."""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.losses.base import Loss

LOSSES: "Registry[type[Loss]]" = Registry("loss", "kgcore.losses")
