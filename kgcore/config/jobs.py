"""The settings of the jobs outside a pipeline: questions to a model, promote, watch, tune and ensemble."""

from dataclasses import dataclass

from kgcore.config.base import Config, setting
from kgcore.config.calibrate import COMPLETENESS, check_completeness
from kgcore.config.choices import (
    EXAM_SHARE,
    FEWEST_EPOCHS,
    MODEL_ONLY,
    OBJECTIVES,
    PER,
    SEARCHABLE,
    SEARCHED,
    SIDES_SPELLING,
    TRAINING_ONLY,
    check_draws_without_model,
    check_draws_without_training,
)
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS, POOLS, STRATEGIES


@dataclass(frozen=True, kw_only=True)
class GateConfig(Config):
    """The conditions under which a challenger replaces the champion."""

    level: float = setting(
        0.95,
        "confidence level: the probability that any challenger passes without being better is at most 1 - level, over "
        "all days and candidates of an era of the exam",
        gt=0.5,
        lt=1,
    )
    margin: float = setting(
        0.05,
        "how much higher than the champion's the calibration error of a challenger may be at a base rate of .5. At a "
        "base rate a, the limit is this times 2 sqrt(a (1 - a))",
        gt=0,
        lt=1,
    )
    field_labels: int = setting(
        100, "from this number of new field labels on, candidates are judged on them alone", ge=20
    )
    most_challengers: int = setting(20, "largest number of challengers that are judged at once", ge=1)
    approve: bool = setting(
        False, "let a person approve a challenger that has passed, in the Prefect UI, before it becomes the champion"
    )


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Config):
    """The tests of a model on newly labelled triples for drift, and the reaction to drift."""

    alpha: float = setting(
        0.01, "largest probability that any check of a champion reports drift although there is none", gt=0, lt=1
    )
    ece: float = setting(
        0.02,
        "report a moved base rate or map only if the calibration error (ECE) is above this value, or the log-odds have "
        "moved by more than 0.25",
        ge=0,
        lt=1,
    )
    psi: float = setting(
        0.1, "report score drift only if it is significant and the population stability index is above this value", gt=0
    )
    at_least: int = setting(50, "smallest number of newly labelled triples that the tests need", ge=10)
    on_drift: str = setting("warn", "what to do if the base rate or the map moved", choices=("warn", "recalibrate"))
    exam_share: float = setting(
        EXAM_SHARE, "share of the labels that belong to the exam; the others are for calibration", ge=0, lt=1
    )


@dataclass(frozen=True, kw_only=True)
class PredictConfig(Config):
    """The decisions about candidate triples."""

    threshold: float = setting(
        0.5, "decision threshold: a triple with a probability above it counts as true", ge=0, le=1
    )
    cost_false_positive: float = setting(
        1.0, "cost of accepting a false triple; unequal costs set the threshold to the one of least expected cost", gt=0
    )
    cost_false_negative: float = setting(1.0, "cost of rejecting a true triple", gt=0)
    at_least: int = setting(
        5, "fewest calibration triples of a predicate, true and false each, for which its triples are answered", ge=0
    )

    fdr: float = setting(
        0.0,
        "mark candidates of a file as selected, so that this is the largest expected share of false ones among them; "
        "0 = mark none",
        ge=0,
        lt=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold != 0.5 and self.cost_false_positive != self.cost_false_negative:
            raise InputError(
                f"threshold is {self.threshold:g}, and the costs also set a threshold: give a threshold or costs"
            )

    @property
    def decides_at(self) -> float:
        """The decision threshold: the given one, or c_FP / (c_FP + c_FN) for unequal costs.

        A triple of probability q costs (1 - q) c_FP in expectation if it counts as true, and q c_FN if it counts as
        false (Elkan, IJCAI 2001, section 2).
        """
        if self.cost_false_positive == self.cost_false_negative:
            return self.threshold
        return self.cost_false_positive / (self.cost_false_positive + self.cost_false_negative)


@dataclass(frozen=True, kw_only=True)
class PairsConfig(Config):
    """The selection among all pairs of subjects and objects."""

    top: int = setting(0, "number of pairs with the highest probabilities to keep; 0 = all pairs", ge=0)
    per: str = setting("all", "count `top` over all pairs, or for each subject or object", choices=PER)
    above: float = setting(0.0, "keep pairs with a probability above this; 0 = all pairs", ge=0, lt=1)
    completeness: str = setting("", COMPLETENESS, check=check_completeness)
    known_facts: str = setting("leave_out", "what to do with pairs that are known facts", choices=("leave_out", "mark"))


@dataclass(frozen=True, kw_only=True)
class AuditConfig(Config):
    """The audit of the training facts."""

    folds: int = setting(
        5, "number of folds of the training facts, and of the models: each is trained without one fold", ge=2
    )
    planted: float = setting(
        0.05,
        "number of planted errors, as a share of the training facts; planted errors are corruptions that are added to "
        "the facts, so that the audit learns how the models score errors",
        gt=0,
        le=0.5,
    )
    planted_strategy: dict[str, float] = setting(
        {"typed": 0.9, "uniform": 0.1},
        "corruption strategies of the planted errors and their shares",
        choices=STRATEGIES.without(TRAINING_ONLY | MODEL_ONLY),
        check=check_draws_without_model,
    )
    planted_sides: str = setting("both", "which side of a fact a planted error replaces", spelling=SIDES_SPELLING)
    audit_seed: int = setting(0, "seed of the folds, of the planted errors and of the drawn facts", ge=0)
    sample: int = setting(0, "number of facts to draw for labelling, instead of the list of all facts; 0: none", ge=0)


@dataclass(frozen=True, kw_only=True)
class BaseRateConfig(Config):
    """The estimate of the base rate of candidates."""

    strategies: tuple[str, ...] = setting(
        ("relational", "typed", "uniform"),
        "corruption strategies that the candidates' mistakes may resemble",
        choices=STRATEGIES.without(TRAINING_ONLY),
        check=check_draws_without_training,
    )
    per_positive: int = setting(20, "corruptions of each validation positive by each strategy", ge=1)
    width: float = setting(
        0.1,
        "the base rate counts as determined if its 95 % interval is at most this wide, and its "
        "ends differ by at most a factor of 4 in odds",
        gt=0,
        lt=1,
    )
    by_relation: bool = setting(True, "also estimate the base rate of each relation with enough triples")
    base_rate_seed: int = setting(0, "seed of the corruptions and of the simulations", ge=0)


@dataclass(frozen=True, kw_only=True)
class ExplainConfig(Config):
    """What the explanation of a probability shows, and what the probability is about."""

    completeness: str = setting("", COMPLETENESS, check=check_completeness)
    missing: bool = setting(
        False,
        "explain the probability that `discover` gives, about the missing facts of the predicate; `completeness` does "
        "so, too. Then `base_rate` is the share of true ones among them",
    )

    alternatives: int = setting(5, "largest number of other subjects and of other objects to show", ge=0, le=100)
    facts: int = setting(
        5, "largest number of known facts to show with the same subject, with the same object, and with neither", ge=0
    )
    at_least: int = setting(
        PredictConfig.at_least,
        "fewest calibration triples of a predicate, true and false each, for which its triples have a probability",
        ge=0,
    )


@dataclass(frozen=True, kw_only=True)
class DiscoverConfig(Config):
    """The choice of missing facts."""

    completeness: str = setting("", COMPLETENESS, check=check_completeness)

    top: int = setting(100, "largest number of missing facts; not used with `fdr` or `coverage`", ge=1)
    above: float = setting(0.0, "list only facts with a probability above this value", ge=0, lt=1)
    fdr: float = setting(
        0.0, "largest expected share of false facts in the list; 0 = do not control the share", ge=0, lt=1
    )
    coverage: float = setting(
        0.0, "answer set of a query that contains the true answer with this probability; 0 = no answer set", ge=0, lt=1
    )
    candidates: str = setting("typed", "entities that fit the predicate in train, or all", choices=("typed", "all"))
    at_least: int = setting(
        5, "fewest calibration triples of a predicate, true and false each, for which its triples are answered", ge=0
    )
    discover_seed: int = setting(0, "seed that breaks ties of scores, for `fdr`", ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fdr and self.coverage:
            raise InputError(f"fdr is {self.fdr:g} and coverage is {self.coverage:g}: give one of them")


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
    member_calibrator: str = setting("smoothed_isotonic", "calibrator of the members", choices=CALIBRATORS)
    recalibrator: str = setting("beta", "calibrator of the pooled log-odds", choices=CALIBRATORS)
    folds: int = setting(
        10,
        "number of folds of the validation triples; for a fold, members are calibrated on the other folds",
        ge=2,
    )
    fold_seed: int = setting(0, "seed of the folds", ge=0)
