"""Scoring functions, one file each. `MODELS.get("transe")` imports and returns the class."""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.models.base import Model

MODELS: "Registry[type[Model]]" = Registry("model", "kgcore.models", helpers=("base", "cohort", "inverse", "trained"))
