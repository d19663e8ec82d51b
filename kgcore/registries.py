"""The registries: one for each kind of component that a user selects by name. Each one names its package of files.

This module imports no component, so that settings can list and check the names before any component is imported.
"""

from typing import TYPE_CHECKING, Any

from kgcore.registry import Joined, Registry

if TYPE_CHECKING:
    from kgcore.calibration.base import Calibrator
    from kgcore.combiners.base import Combiner
    from kgcore.corruptions.base import Strategy
    from kgcore.datasets.base import DatasetSpec
    from kgcore.datasets.formats.base import Format, Layout
    from kgcore.ensembles.base import Pool
    from kgcore.evidence.base import Feature
    from kgcore.losses.base import Loss
    from kgcore.metrics.base import Metric
    from kgcore.models.base import Model
    from kgcore.optimisers.base import RowOptimiser

DATASETS: "Registry[DatasetSpec]" = Registry("data set", "kgcore.datasets", "DATASETS")
FORMATS: "Registry[Format]" = Registry("file format", "kgcore.datasets.formats", "FORMATS")
LAYOUTS: "Registry[Layout]" = Registry("layout of files", "kgcore.datasets.formats", "LAYOUTS")
MODELS: "Registry[type[Model]]" = Registry("model", "kgcore.models", "MODELS")
OPTIMISERS: "Registry[type[RowOptimiser]]" = Registry("optimiser", "kgcore.optimisers", "OPTIMISERS")
LOSSES: "Registry[type[Loss]]" = Registry("loss", "kgcore.losses", "LOSSES")
STRATEGIES: "Registry[type[Strategy]]" = Registry("corruption strategy", "kgcore.corruptions", "STRATEGIES")
CALIBRATORS: "Registry[type[Calibrator]]" = Registry("calibrator", "kgcore.calibration", "CALIBRATORS")
BASELINES: "Registry[type[Calibrator]]" = Registry("baseline", "kgcore.calibration.baselines", "BASELINES")
EVIDENCE: "Registry[type[Feature]]" = Registry("group of evidence", "kgcore.evidence", "EVIDENCE")
COMBINERS: "Registry[type[Combiner]]" = Registry("combiner", "kgcore.combiners", "COMBINERS")
MADE_OF_FITTED = ("stack", "folded")  # combiners that are made of fitted ones, and fit nothing
ALL_CALIBRATORS: "Registry[Any]" = Joined("calibrator", CALIBRATORS, COMBINERS.without(MADE_OF_FITTED))
POOLS: "Registry[type[Pool]]" = Registry("pool", "kgcore.ensembles", "POOLS")
METRICS: "Registry[Metric]" = Registry("metric", "kgcore.metrics", "METRICS")
"""The metrics of calibrated probabilities. A new metric is one new file in kgcore/metrics:

    # kgcore/metrics/spread.py
    METRICS.add("spread", Metric("spread", "calibration", "lowest", lambda t: float(np.ptp(t.q))))

`kgcore.metrics.base.Metric` documents every field. Evaluation then measures the metric with an interval. Artifacts,
MLflow, the report, the terminal's tables and `kgcal compare` show it among the metrics of its family. If one
computation gives several metrics, each metric registers its own name and calls `t.once(computation)`, so that the
computation runs once: kgcore/metrics/corp.py is an example.
"""
