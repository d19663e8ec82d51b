"""The registries: one for each kind of component that a user selects by name, with its package and the names there.

This module imports no component, so that settings can list and check the names before any component is imported. A test
compares the lists with what the packages register. A new component works by its file alone, as kgcore/registry.py says;
its name stands here so that help and forms show it.
"""

from typing import TYPE_CHECKING, Any

from kgcore.registry import Joined, Registry

if TYPE_CHECKING:
    from kgcore.calibrate.base import Calibrator
    from kgcore.combiners.base import Combiner
    from kgcore.data.datasets.base import DatasetSpec
    from kgcore.data.formats.base import Format, Layout
    from kgcore.embed.corruptions.base import Strategy
    from kgcore.embed.losses.base import Loss
    from kgcore.embed.models.base import Model
    from kgcore.embed.optimisers.base import RowOptimiser
    from kgcore.embed.training.step import Backend
    from kgcore.evidence.base import Feature
    from kgcore.measure.metrics.base import Metric
    from kgcore.wings.ensembles.pools import Pool

DATASETS: "Registry[DatasetSpec]" = Registry(
    "data set", "kgcore.data.datasets", "family", {"published": "codex-m codex-s fb13 fb15k-237 wn11 wn18rr yago39k"}
)
FORMATS: "Registry[Format]" = Registry(
    "file format",
    "kgcore.data.formats",
    "jsonl parquet sif",
    {"text": "csv tsv", "rdf": "json_ld n_quads n_triples rdf_xml trig turtle"},
)
LAYOUTS: "Registry[Layout]" = Registry(
    "layout of files", "kgcore.data.formats", "triples_factory", {"numbered": "openke transc"}
)
MODELS: "Registry[type[Model]]" = Registry(
    "model",
    "kgcore.embed.models",
    "analogy capse complex conve convkb distmult hole hole_complex kbgat kg2e quate rescal rotate simple toruse transe"
    " tucker",
    options={
        "capse": "filters=32 capsule=10 routings=1 log_odds=True",
        "conve": "filters=32 kernel=CHOSEN_FROM_K height=CHOSEN_FROM_K",
        "convkb": "filters=32",
        "kbgat": "filters=32 heads=2",
        "kg2e": "likelihood=False",
        "rotate": "norm=1",
        "toruse": "norm=1",
        "transe": "norm=1",
        "tucker": "predicate_size=CHOSEN_FROM_K",
    },
)
OPTIMISERS: "Registry[type[RowOptimiser]]" = Registry(
    "optimiser", "kgcore.embed.optimisers", files={"base": "adagrad adam"}
)
BACKENDS: "Registry[type[Backend]]" = Registry(
    "backend of a device", "kgcore.wings", files={"fast_cpu.training": "cpu", "fast_gpu.training": "cuda"}
)
LOSSES: "Registry[type[Loss]]" = Registry(
    "loss",
    "kgcore.embed.losses",
    "confidence multiclass_nll nll pairwise self_adversarial",
    options={"confidence": "corruptions=0.1", "pairwise": "margin=3.0", "self_adversarial": "margin=3.0 alpha=0.5"},
)
STRATEGIES: "Registry[type[Strategy]]" = Registry(
    "corruption strategy", "kgcore.embed.corruptions", "batch kbgan near_miss nearest relational similar typed uniform"
)
CALIBRATORS: "Registry[type[Calibrator]]" = Registry(
    "calibrator",
    "kgcore.calibrate",
    "bbq beta isotonic per_relation platt temperature venn_abers",
    {"isotonic": "smoothed_isotonic"},
)
BASELINES: "Registry[type[Calibrator]]" = Registry(
    "baseline",
    "kgcore.calibrate",
    files={"base": "base_rate constant constant_by_relation uncalibrated"},
)
EVIDENCE: "Registry[type[Feature]]" = Registry(
    "group of evidence",
    "kgcore.evidence",
    "fold held_out name_pairs",
    {
        "entities": "constants degrees types",
        "names": "name_embeddings name_likeness name_roles",
        "pairs": "neighbours paths rules",
        "scores": "cohorts other_scores score",
    },
)
COMBINERS: "Registry[type[Combiner]]" = Registry(
    "combiner", "kgcore.combiners", "boosted_trees", {"joined": "folded stack"}
)
MADE_OF_FITTED = ("stack", "folded")  # combiners that are made of fitted ones, and fit nothing
ALL_CALIBRATORS: "Registry[Any]" = Joined("calibrator", CALIBRATORS, COMBINERS.without(MADE_OF_FITTED))
# types that know their format, in calibrators and artifacts: their wing is loaded when such a value is read
STORED: "Registry[Any]" = Registry(
    "stored type",
    "kgcore",
    files={
        "combiners.base": "combiner",
        "combiners.unseen": "unseen",
        "evidence.twins": "twins",
        "wings.ensembles.ensemble": "pool",
        "wings.external.calibrator": "score_calibrator",
        "mixture.matched": "candidates",
        "mixture.samples": "mixture",
        "answer.population.survey": "survey",
    },
)
POOLS: "Registry[type[Pool]]" = Registry("pool", "kgcore.wings.ensembles", files={"pools": "linear log_odds"})
METRICS: "Registry[Metric]" = Registry(
    "metric",
    "kgcore.measure.metrics",
    files={
        "classification": "accuracy auroc average_precision sharpness",
        "proper": (
            "brier log_loss mean_absolute_error mean_squared_error brier_discrimination brier_miscalibration"
            " brier_uncertainty log_loss_discrimination log_loss_miscalibration log_loss_uncertainty"
        ),
        "reliability": "debiased_rmsce ece ece_equal_mass smooth_ece",
    },
)
