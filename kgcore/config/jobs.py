"""The settings of the jobs outside a pipeline: promote, watch, tune and ensemble."""

from dataclasses import dataclass

from kgcore.config.base import Config, setting
from kgcore.config.choices import FEWEST_EPOCHS, OBJECTIVES, SEARCHABLE, SEARCHED
from kgcore.registries import CALIBRATORS, POOLS


@dataclass(frozen=True, kw_only=True)
class GateConfig(Config):
    """The conditions under which a challenger replaces the champion."""

    level: float = setting(0.95, "confidence level at which the challenger must be better", gt=0.5, lt=1)
    replicates: int = setting(1000, "bootstrap replicates", ge=100)
    gate_seed: int = setting(0, "seed of the bootstrap", ge=0)


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Config):
    """The tests of a model on newly labelled triples for drift, and the reaction to drift."""

    alpha: float = setting(0.01, "significance level: a test with a smaller p-value reports drift", gt=0, lt=1)
    ece: float = setting(
        0.02, "report calibration drift only if the calibration error (ECE) is above this value", ge=0, lt=1
    )
    psi: float = setting(
        0.2, "report score drift only if it is significant and the population stability index is above this value", gt=0
    )
    at_least: int = setting(50, "smallest number of newly labelled triples that the tests need", ge=10)
    on_drift: str = setting("warn", "what to do on drift", choices=("warn", "recalibrate"))


@dataclass(frozen=True, kw_only=True)
class TuneConfig(Config):
    """A search for training settings that uses the validation split only."""

    trials: int = setting(30, "number of trials, including those of earlier calls with the same settings", ge=1)
    minutes: float = setting(20.0, "time limit of this call in minutes; at least one trial is completed", gt=0)
    metric: str = setting("brier", "metric on the validation split to optimise", choices=tuple(OBJECTIVES))
    search: tuple[str, ...] = setting(
        SEARCHED, "training settings to search; the others keep their values", choices=SEARCHABLE
    )
    most_epochs: int = setting(100, "largest number of epochs of a trial, if epochs are searched", ge=FEWEST_EPOCHS)
    tune_seed: int = setting(
        0, "seed of the trials, and of the random halves and the random sample of the validation triples", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig(Config):
    """The combination of calibrated models into an ensemble."""

    pools: tuple[str, ...] = setting(("linear", "log_odds"), "how to pool the probabilities", choices=POOLS)
    member_calibrator: str = setting("isotonic", "calibrator of the members", choices=CALIBRATORS)
    recalibrator: str = setting("platt", "calibrator of the pooled log-odds", choices=CALIBRATORS)
    folds: int = setting(
        10,
        "number of folds of the validation triples: members that predict a fold are calibrated on the other folds",
        ge=2,
    )
    fold_seed: int = setting(0, "seed of the folds", ge=0)
