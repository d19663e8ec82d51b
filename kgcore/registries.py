"""The registries: every kind of component that a name can choose, and the package that holds its files.

This module imports no component, so that settings can list and check names before any component is loaded.
"""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.calibration.base import Calibrator
    from kgcore.corruptions.base import Strategy
    from kgcore.datasets.base import DatasetSpec
    from kgcore.ensembles.base import Pool
    from kgcore.losses.base import Loss
    from kgcore.models.base import Model

DATASETS: "Registry[DatasetSpec]" = Registry("data set", "kgcore.datasets", "DATASETS")
MODELS: "Registry[type[Model]]" = Registry("model", "kgcore.models", "MODELS")
LOSSES: "Registry[type[Loss]]" = Registry("loss", "kgcore.losses", "LOSSES")
STRATEGIES: "Registry[type[Strategy]]" = Registry("corruption strategy", "kgcore.corruptions", "STRATEGIES")
CALIBRATORS: "Registry[type[Calibrator]]" = Registry("calibrator", "kgcore.calibration", "CALIBRATORS")
BASELINES: "Registry[type[Calibrator]]" = Registry("baseline", "kgcore.calibration.baselines", "BASELINES")
POOLS: "Registry[type[Pool]]" = Registry("pool", "kgcore.ensembles", "POOLS")
