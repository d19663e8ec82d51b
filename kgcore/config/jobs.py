"""The settings of the jobs that read or make many runs: promote, watch, tune, ensemble."""

from dataclasses import dataclass

from kgcore.config.base import Config, setting
from kgcore.config.choices import FEWEST_EPOCHS, OBJECTIVES, SEARCHABLE, SEARCHED
from kgcore.registries import CALIBRATORS, POOLS


@dataclass(frozen=True, kw_only=True)
class GateConfig(Config):
    """When a challenger takes the champion's place."""

    level: float = setting(0.95, "confidence of the interval beyond which it must be better", gt=0.5, lt=1)
    replicates: int = setting(1000, "bootstrap replicates", ge=100)
    gate_seed: int = setting(0, "seed of the bootstrap", ge=0)


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Config):
    """When newly labelled triples say that a model no longer fits."""

    alpha: float = setting(0.01, "a test whose p is below this has found something", gt=0, lt=1)
    ece: float = setting(0.02, "a calibration error below this is none to act on", ge=0, lt=1)
    psi: float = setting(0.2, "a stability index above this counts as drift, where it is beyond sampling", gt=0)
    at_least: int = setting(50, "newly labelled triples that are needed to judge", ge=10)
    on_drift: str = setting("warn", "what is done about it", choices=("warn", "recalibrate"))


@dataclass(frozen=True, kw_only=True)
class TuneConfig(Config):
    """A search for training settings, on validation alone."""

    trials: int = setting(30, "trials, those of earlier calls with the same settings included", ge=1)
    minutes: float = setting(20.0, "minutes after which this call ends, once a trial is complete", gt=0)
    metric: str = setting("brier", "figure of validation that is made better", choices=tuple(OBJECTIVES))
    search: tuple[str, ...] = setting(
        SEARCHED, "training settings that are searched for; the others stay as they are given", choices=SEARCHABLE
    )
    most_epochs: int = setting(100, "most epochs that a trial may train, where epochs are searched", ge=FEWEST_EPOCHS)
    tune_seed: int = setting(0, "seed of the search, and of what validation is split and sampled by", ge=0)


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig(Config):
    """How calibrated models become one."""

    pools: tuple[str, ...] = setting(("linear", "log_odds"), "how probabilities are pooled", choices=POOLS)
    member_calibrator: str = setting("isotonic", "calibrator of the members", choices=CALIBRATORS)
    recalibrator: str = setting("platt", "calibrator of what is pooled, on its log-odds", choices=CALIBRATORS)
    folds: int = setting(10, "parts of the validation triples, each calibrated by the others to learn the pool", ge=2)
    fold_seed: int = setting(0, "seed of the folds", ge=0)
