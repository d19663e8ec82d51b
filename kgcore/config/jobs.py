"""The settings of the jobs outside a pipeline, and those that a run records and nobody gives."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from kgcore.config.base import (
    DRAWN,
    DRAWN_WITHOUT_MODEL,
    EXAM_SHARE,
    FEWEST_EPOCHS,
    OBJECTIVES,
    PER,
    SEARCHABLE,
    SEARCHED,
    SIDES_SPELLING,
    Choices,
    Config,
    Options,
    setting,
)
from kgcore.config.calibrate import COMPLETENESS, SCORE_CALIBRATORS, Completeness
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS, MODELS, POOLS

SCALES = ("any", "probability")
IMPORTABLE = ("transe", "distmult", "complex", "rotate", "hole")
LAYOUTS = ("halves", "pairs")
FEWEST_CALIBRATED = 5  # calibration triples of a predicate, true and false each, for which its triples are answered


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
    on_drift: Annotated[str, Choices(("warn", "recalibrate"))] = setting(
        "warn", "what to do if the base rate or the map moved"
    )
    exam_share: float = setting(
        EXAM_SHARE, "share of the labels that belong to the exam; the others are for calibration", ge=0, lt=1
    )


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
        FEWEST_CALIBRATED,
        "fewest calibration triples of a predicate, true and false each, for which its triples are answered",
        ge=0,
    )

    fdr: float = setting(
        0.0,
        "mark candidates of a file as selected, so that this is the largest expected share of false ones among them; "
        "0 = mark none",
        ge=0,
        lt=1,
    )

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.threshold != 0.5 and self.cost_false_positive != self.cost_false_negative:
            raise InputError(
                f"threshold is {self.threshold:g}, and the costs also set a threshold: give a threshold or costs"
            )
        return self

    @property
    def decides_at(self) -> float:
        """The decision threshold: the given one, or c_FP / (c_FP + c_FN) for unequal costs.

        A triple of probability q costs (1 - q) c_FP in expectation if it counts as true, and q c_FN if it counts as
        false (Elkan, IJCAI 2001, section 2).
        """
        if self.cost_false_positive == self.cost_false_negative:
            return self.threshold
        return self.cost_false_positive / (self.cost_false_positive + self.cost_false_negative)


class PairsConfig(Config):
    """The selection among all pairs of subjects and objects."""

    top: int = setting(0, "number of pairs with the highest probabilities to keep; 0 = all pairs", ge=0)
    per: Annotated[str, Choices(PER)] = setting("all", "count `top` over all pairs, or for each subject or object")
    above: float = setting(0.0, "keep pairs with a probability above this; 0 = all pairs", ge=0, lt=1)
    completeness: Completeness = setting("", COMPLETENESS)
    known_facts: Annotated[str, Choices(("leave_out", "mark"))] = setting(
        "leave_out", "what to do with pairs that are known facts"
    )


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
    planted_strategy: Annotated[dict[str, float], DRAWN_WITHOUT_MODEL] = setting(
        {"typed": 0.9, "uniform": 0.1}, "corruption strategies of the planted errors and their shares"
    )
    planted_sides: Annotated[str, SIDES_SPELLING] = setting("both", "which side of a fact a planted error replaces")
    audit_seed: int = setting(0, "seed of the folds, of the planted errors and of the drawn facts", ge=0)
    sample: int = setting(0, "number of facts to draw for labelling, instead of the list of all facts; 0: none", ge=0)


class BaseRateConfig(Config):
    """The estimate of the base rate of candidates."""

    strategies: Annotated[tuple[str, ...], DRAWN] = setting(
        ("relational", "typed", "uniform"), "corruption strategies that the candidates' mistakes may resemble"
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


class ExplainConfig(Config):
    """What the explanation of a probability shows, and what the probability is about."""

    completeness: Completeness = setting("", COMPLETENESS)
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
        FEWEST_CALIBRATED,
        "fewest calibration triples of a predicate, true and false each, for which its triples have a probability",
        ge=0,
    )


class DiscoverConfig(Config):
    """The choice of missing facts."""

    completeness: Completeness = setting("", COMPLETENESS)

    top: int = setting(100, "largest number of missing facts; not used with `fdr` or `coverage`", ge=1)
    above: float = setting(0.0, "list only facts with a probability above this value", ge=0, lt=1)
    fdr: float = setting(
        0.0, "largest expected share of false facts in the list; 0 = do not control the share", ge=0, lt=1
    )
    coverage: float = setting(
        0.0, "answer set of a query that contains the true answer with this probability; 0 = no answer set", ge=0, lt=1
    )
    candidates: Annotated[str, Choices(("typed", "all"))] = setting(
        "typed", "entities that fit the predicate in train, or all"
    )
    at_least: int = setting(
        FEWEST_CALIBRATED,
        "fewest calibration triples of a predicate, true and false each, for which its triples are answered",
        ge=0,
    )
    discover_seed: int = setting(0, "seed that breaks ties of scores, for `fdr`", ge=0)

    @model_validator(mode="after")
    def _one_promise(self) -> Self:
        if self.fdr and self.coverage:
            raise InputError(f"fdr is {self.fdr:g} and coverage is {self.coverage:g}: give one of them")
        if self.above and (self.fdr or self.coverage):
            name = "fdr" if self.fdr else "coverage"
            raise InputError(f"above is {self.above:g} and {name} is {getattr(self, name):g}: give one of them")
        return self


class TuneConfig(Config):
    """A search for training settings that uses the validation split only."""

    trials: int = setting(30, "number of trials, including those of earlier calls with the same settings", ge=1)
    minutes: float = setting(20.0, "time limit of this call in minutes; at least one trial is completed", gt=0)
    metric: Annotated[str, Choices(tuple(OBJECTIVES))] = setting("brier", "metric on the validation split to optimise")
    search: Annotated[tuple[str, ...], Choices(SEARCHABLE)] = setting(
        SEARCHED, "training settings to search; the others keep their values"
    )
    most_epochs: int = setting(100, "largest number of epochs of a trial, if epochs are searched", ge=FEWEST_EPOCHS)
    tune_seed: int = setting(
        0, "seed of the trials, and of the random halves and the random sample of the validation triples", ge=0
    )


class EnsembleConfig(Config):
    """The combination of calibrated models into an ensemble."""

    pools: Annotated[tuple[str, ...], Choices(POOLS)] = setting(("linear", "log_odds"), "how to pool the probabilities")
    member_calibrator: Annotated[str, Choices(CALIBRATORS)] = setting("smoothed_isotonic", "calibrator of the members")
    recalibrator: Annotated[str, Choices(CALIBRATORS)] = setting("beta", "calibrator of the pooled log-odds")
    folds: int = setting(
        10, "number of folds of the validation triples; for a fold, members are calibrated on the other folds", ge=2
    )
    fold_seed: int = setting(0, "seed of the folds", ge=0)


class ScoresConfig(Config):
    """The columns of a file of scores, and how calibrators are fitted to them and measured."""

    score: str = setting("score", "column with the scores; a higher score must be more plausible")
    label: str = setting("label", "column with the labels: 1 or true; 0, -1 or false")
    weight: str = setting("", "column with the weights of the rows, 0 or above; empty: all rows have the same weight")
    relation: str = setting("", "column with the relations, for results and calibration by relation; empty: none")
    split: str = setting(
        "",
        "column with the splits: calibrators are fitted on valid and measured on test; rows of train are left out. "
        "Empty: calibrators are fitted on all rows, and measured by cross-fitting",
    )
    scorer: str = setting(
        "", "name of the scorer, to which the calibrators belong; empty: the name of its column", max_length=100
    )
    scale: Annotated[str, Choices(SCALES)] = setting(
        "any", "what the scores are: any numbers, or probabilities, whose log-odds are calibrated"
    )
    calibrators: Annotated[tuple[str, ...], Choices(CALIBRATORS)] = setting(SCORE_CALIBRATORS, "calibrators to fit")
    base_rate: float | None = setting(
        None,
        "base rate: share of true rows among those that you will ask about. If you do not state it, it is the share "
        "among the labelled rows",
        gt=0,
        lt=1,
    )
    folds: int = setting(10, "number of folds of cross-fitting, if there are no test rows", ge=2, le=100)
    most_measured: int = setting(
        1_000_000, "in cross-fitting, measure whole folds until there are about this many rows", ge=1000
    )
    fold_seed: int = setting(0, "seed of the folds", ge=0)

    @property
    def named(self) -> str:
        """The name of the scorer: the given one, or the name of the column with its scores."""
        return self.scorer or self.score


class ImportConfig(Config):
    """The scoring function of a table of entities and a table of relations, and how their numbers are stored."""

    model: Annotated[str, Choices(IMPORTABLE)] = setting("transe", "scoring function of the embeddings")
    model_options: Annotated[dict[str, float | bool], Options(MODELS)] = setting({}, "options of the scoring function")
    layout: Annotated[str, Choices(LAYOUTS)] = setting(
        "halves",
        "where complex numbers are stored as real ones: halves = first all real, then all imaginary parts; pairs = the "
        "two parts of each number side by side",
    )


class ImportedModel(Config):
    """What is known of an imported model: a part of `TrainConfig`. How it was trained is not known."""

    stage: ClassVar[str] = "train"

    model: str = "transe"
    model_options: dict[str, float | bool] = Field({})
    k: int = 1


class SurveyConfig(Config):
    """The draw of candidates from a population, to which probabilities are calibrated."""

    stage: ClassVar[str] = "survey"

    survey_top: int = setting(300_000, "candidates with the highest scores whose evidence is weighed", ge=1)
    survey_rest: int = setting(60_000, "candidates that stand for all others", ge=1)
    survey_seed: int = setting(0, "seed of the draw, of the combiners and of the bootstrap", ge=0)

    def for_list(self, top: int) -> Self:
        """Return the settings for a list of `top` candidates: the survey has five times as many."""
        return self.replace(survey_top=max(self.survey_top, 5 * top))
