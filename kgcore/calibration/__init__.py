"""Calibrators, one file each. `CALIBRATORS.get("platt")` imports and returns the class."""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.calibration.base import Calibrator

CALIBRATORS: "Registry[type[Calibrator]]" = Registry(
    "calibrator",
    "kgcore.calibration",
    helpers=("base", "sample", "fit", "shift", "logistic", "pav", "steps", "effective", "audit"),
)
