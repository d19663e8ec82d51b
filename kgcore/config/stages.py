"""The settings of each stage but match, evidence and calibrate: see calibrate.py."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from kgcore.base_rate import BaseRate
from kgcore.config.base import (
    ALL,
    AUTO,
    COLUMNS_SPELLING,
    DRAWN,
    ETA_SPELLING,
    GAIN,
    INITIALISERS,
    OBJECTIVES,
    POPULATIONS,
    RANDOM,
    RANKED_SPELLING,
    SIDES_SPELLING,
    SPLIT_SPELLING,
    Choices,
    Config,
    Options,
    SplitRule,
    object_share,
    setting,
)
from kgcore.config.calibrate import ASSUMED_BASE_RATE
from kgcore.errors import InputError
from kgcore.registries import LOSSES, MODELS, OPTIMISERS, STRATEGIES

NO_CONFIDENCE = "none"
FEWEST_ETA = 20
PLENTY = 1_000_000  # corruptions in all: more of them than of positives hardly make a calibrator better
ENOUGH = 100
LOW = 0.05
MOST_CORRUPTIONS = 5_000_000  # 0.5 GB of scores
MOST_LOOKED_AT = 10**15  # by scoring
MOST_RANKED, FEWEST_RANKED = 50_000, 10_000
MOST_RANKED_PAIRS = 2_500_000_000  # of a ranked fact and an entity


class PrepareConfig(Config):
    """The settings of the graph.

    Only the generated family graph uses `size` and `graph_seed`. Only a user's own tables use `columns` and
    `confidence`. Only a graph without validation and test splits uses `split`, the shares and `split_seed`.
    """

    stage: ClassVar[str] = "prepare"
    first: ClassVar[tuple[str, ...]] = ("dataset", "columns", "split")

    dataset: str = setting(
        "family", "data set: a name from `kgcal datasets`, a folder, a file, or several files separated by commas"
    )
    columns: Annotated[str, COLUMNS_SPELLING] = setting(
        AUTO, "columns of subject, predicate and object, and of the label if there are labels"
    )
    confidence: str = setting(
        NO_CONFIDENCE,
        "column with the confidence of each triple, a number from 0 to 1: its name or its position from 1",
    )
    split: Annotated[str, SPLIT_SPELLING] = setting(
        RANDOM,
        "how valid and test are drawn, if the data set has no splits; they should be as new as the triples that you "
        "will ask about",
    )
    valid_share: float = setting(
        0.1, "share of the triples that go to valid, if the data set has no splits", gt=0, lt=0.5
    )
    test_share: float = setting(
        0.1, "share of the triples that go to test, if the data set has no splits", gt=0, lt=0.5
    )
    split_seed: int = setting(0, "seed of the split, if the data set has no splits", ge=0)
    size: int = setting(2_000, "number of people in the generated family graph", ge=200)
    graph_seed: int = setting(0, "seed of the generated family graph", ge=0)

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if len(set(self.given_columns)) < len(self.given_columns):
            raise InputError(f"columns is {self.columns!r}: it must name every column once")
        return self

    @property
    def given_columns(self) -> tuple[str, ...]:
        """The entries of `columns`; empty if the columns are to be found."""
        return () if self.columns == AUTO else tuple(entry.strip() for entry in self.columns.split(","))

    @property
    def split_rule(self) -> SplitRule:
        """The setting `split` in its parts."""
        return SplitRule.of(self.split)

    @property
    def given_confidence(self) -> str:
        """The column of confidences; empty without one."""
        return "" if self.confidence == NO_CONFIDENCE else self.confidence.strip()


class ChooseConfig(Config):
    """The race of the preset `auto`. It uses the validation split, and never the test split."""

    stage: ClassVar[str] = "choose"
    first: ClassVar[tuple[str, ...]] = ()

    minutes: float = setting(
        0.0,
        "time limit of the race in minutes; the model that is best by then is trained to its end; 0 = no limit",
        ge=0,
    )
    race_metric: Annotated[str, Choices((*OBJECTIVES,))] = setting(
        GAIN,
        "metric on the validation split that decides the race; gain: the mean over `judged_on` of how much better a "
        "model is than a forecast that knows nothing",
    )
    judged_on: Annotated[str, Choices((ALL, *POPULATIONS))] = setting(
        ALL,
        "populations whose gain decides the race: hard negatives, the answers to queries, missing facts, or all three",
    )
    race_seed: int = setting(0, "seed of the random draws from the validation triples in the race", ge=0)

    @model_validator(mode="after")
    def _gain_alone(self) -> Self:
        if self.judged_on != ALL and self.race_metric != GAIN:
            raise InputError(
                f"judged_on is {self.judged_on}, but race_metric is {self.race_metric}: only the gain is about it"
            )
        return self


class TrainConfig(Config):
    """The embedding model and its training. The defaults were chosen on the validation split of WN11."""

    stage: ClassVar[str] = "train"
    first: ClassVar[tuple[str, ...]] = ("model", "k", "epochs", "seed")

    model: Annotated[str, Choices(MODELS)] = setting("transe", "scoring function")
    model_options: Annotated[dict[str, float | bool], Options(MODELS)] = setting({}, "options of the scoring function")
    loss: Annotated[str, Choices(LOSSES)] = setting("self_adversarial", "training loss")
    loss_options: Annotated[dict[str, float | bool], Options(LOSSES)] = setting({}, "options of the loss")
    k: int = setting(100, "embedding size", ge=1)
    training_eta: int = setting(20, "corruptions per positive in training", ge=1)
    training_strategy: Annotated[dict[str, float], Choices(STRATEGIES)] = setting(
        {"uniform": 1.0}, "corruption strategies in training and their shares"
    )
    training_sides: Annotated[str, SIDES_SPELLING] = setting("both", "which side a corruption in training replaces")
    training_filtered: bool = setting(False, "remove corruptions that are facts of the train split")
    sides_apart: bool = setting(
        False, "compute one loss for subject corruptions and one for object corruptions, and add them"
    )
    inverse_relations: bool = setting(
        False, "learn an inverse of every predicate and corrupt only objects; this doubles the positives"
    )
    epochs: int = setting(100, "passes over the training triples", ge=1)
    batch_size: int = setting(1152, "number of positives in a batch; one optimiser step per batch", ge=1)
    chunk_size: int = setting(
        64,
        "number of positives that share one set of corruptions; 1 = every positive draws its own, as in the paper",
        ge=1,
    )
    optimiser: Annotated[str, Choices(OPTIMISERS)] = setting(
        "adam",
        "optimiser; adagrad is for graphs whose tables do not fit into the memory with adam: it needs a third of it; "
        "distances like transe are as good with it, dot products are worse",
    )
    partitions: int = setting(
        1,
        "number of parts of the entities; a step of training has two of them in memory, and several machines can train "
        "different pairs; more than 1 needs the optimiser adagrad",
        ge=1,
    )
    learning_rate: float = setting(5e-3, "step size of the optimiser at the start", gt=0)
    learning_rate_end: float = setting(
        0.0, "final step size as a share of the learning rate; the decay is linear", ge=0, le=1
    )
    lp_weight: float = setting(0.0, "weight of the LP regulariser on the embeddings of the positives in a batch", ge=0)
    lp_power: float = setting(2.0, "power p of the LP regulariser", ge=1)
    dropout: float = setting(0.0, "share of an entity's embedding that each step sets to zero", ge=0, lt=1)
    initialiser: Annotated[str, Choices(INITIALISERS)] = setting(
        "uniform",
        "distribution of the initial embeddings: uniform, as wide as large steps need; or the normal one of Glorot and "
        "Bengio, which gets narrower with the number of entities, as in the paper's code",
    )
    initial_scale: float = setting(1.0, "factor that multiplies the initial embeddings", gt=0)
    cohort_weight: float = setting(
        0.0,
        "cohort weight: share of the cohort level that is subtracted from a score; the cohort level is a soft maximum "
        "of the scores of other objects of the predicate",
        ge=0,
        le=1,
    )
    cohort_size: int = setting(
        500, "largest number of objects in the cohort of a predicate, by which its scores are normalised", ge=1
    )
    cohort_temperature: float = setting(
        0.5,
        "cohort temperature: near 0, the cohort level is the maximum of the cohort's scores; for large values it is "
        "their mean",
        gt=0,
    )
    seed: int = setting(
        0, "seed of training, for the initial embeddings, the order of the triples, corruptions and cohorts", ge=0
    )

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if self.inverse_relations and object_share(self.training_sides) in (0, 1):
            raise InputError(
                f"training_sides is {self.training_sides}: with inverse relations both sides must be corrupted"
            )
        return self


class CorruptConfig(Config):
    """The corruptions that serve as negatives in synthetic calibration, made from the validation positives.

    If a data set has no labelled negatives, the same settings make the test negatives from the test positives.
    docs/explanation/corruptions.md gives the reasons for the defaults.
    """

    stage: ClassVar[str] = "corrupt"
    first: ClassVar[tuple[str, ...]] = ()

    calibration_strategy: Annotated[dict[str, float], DRAWN] = setting(
        {"typed": 0.5, "similar": 0.5}, "corruption strategies in calibration and their shares"
    )
    calibration_sides: Annotated[str, SIDES_SPELLING] = setting(
        "bernoulli", "which side a corruption in calibration replaces"
    )
    calibration_eta: Annotated[str, Field(coerce_numbers_to_str=True), ETA_SPELLING] = setting(
        AUTO,
        "corruptions per positive in calibration; auto draws 20 but at most about a million in all, and more for a low "
        "base rate, or makes all of them if there are not more",
    )
    for_base_rate: float = setting(
        ASSUMED_BASE_RATE,
        "base rate for which auto draws enough corruptions; in a pipeline it is base_rate",
        gt=0,
        lt=1,
    )
    calibration_filtered: bool = setting(
        True, "remove corruptions in calibration that are known facts; facts of the test split are not used"
    )
    calibration_seed: int = setting(0, "seed of the corruptions in calibration", ge=0)

    def eta(self, positives: int) -> int:
        """Return the corruptions per positive, for this number of positives.

        `auto`: at the base rate alpha, a triple of likelihood ratio (1 - alpha) / alpha has the probability 1/2. Hardly
        a share alpha of the negatives has a higher ratio. So that about ENOUGH of them are in the sample, ENOUGH /
        alpha corruptions are drawn, and at most MOST_CORRUPTIONS; but at least FEWEST_ETA for each positive, or PLENTY
        in all, if that is less, and one for each positive.
        """
        if self.calibration_eta != AUTO:
            return int(self.calibration_eta)
        needed = round(min(ENOUGH / self.settled().for_base_rate, MOST_CORRUPTIONS))
        each = max(positives, 1)
        return max(-(-needed // each), min(FEWEST_ETA, PLENTY // each), 1)

    def all_up_to(self, positives: int) -> int | None:
        """Return the largest number of corruptions at which all of them are made, instead of a draw; None: never.

        It is the number that `auto` would draw for this number of positives. If a positive has fewer corruptions than
        draws, the draws repeat them. All of them, with their probabilities as weights, say the same without chance.
        """
        return self.eta(positives) * positives if self.calibration_eta == AUTO else None

    def looks_at(self, positives: int) -> int | None:
        """Return the number of corruptions that scoring looks at, if it is more than `eta` draws; None: only at these.

        It is ENOUGH / alpha for `auto`. They do not fit in memory, so only the highest scores are kept: see
        kgcore/scores/search.py.
        """
        if self.calibration_eta != AUTO:
            return None
        needed = round(min(ENOUGH / self.settled().for_base_rate, MOST_LOOKED_AT))
        return needed if needed > self.eta(positives) * positives else None

    def at(self, rate: BaseRate) -> Self:
        """Return the settings for this base rate of the candidates."""
        return self.replace(for_base_rate=rate.value)

    def settled(self) -> Self:
        """Return the settings without the base rate, if it does not matter. So runs of other base rates are re-used.

        From the base rate LOW on, the 20 corruptions of each of 100 positives are enough.
        """
        matters = self.calibration_eta == AUTO and self.for_base_rate < LOW
        return self if matters else self.replace(for_base_rate=ASSUMED_BASE_RATE)


class ScoreConfig(Config):
    """The settings of scoring: none, because the model and the triples determine the scores."""

    stage: ClassVar[str] = "score"


class ClassifyConfig(Config):
    """The settings of the decisions from probabilities."""

    stage: ClassVar[str] = "classify"

    tau: float = setting(0.5, "decision threshold: a triple with a probability above it counts as true", gt=0, lt=1)


class RankConfig(Config):
    """The settings of filtered ranks."""

    stage: ClassVar[str] = "rank"

    ranked_facts: Annotated[str, Field(coerce_numbers_to_str=True), RANKED_SPELLING] = setting(
        AUTO,
        "test facts whose ranks are computed, spread evenly over the split if it has more; 0: all; auto: 50,000, or "
        "fewer, but at least 10,000, if the graph has more than 50,000 entities",
    )

    def most(self, entities: int) -> int:
        """Return the number of test facts to rank in a graph with this number of entities; 0: all.

        `auto`: MOST_RANKED, but at most as many as have MOST_RANKED_PAIRS pairs with the entities, because the time of
        ranks grows with these pairs; but at least FEWEST_RANKED: their MRR and hits have a standard error of at most
        .005.
        """
        if self.ranked_facts != AUTO:
            return int(self.ranked_facts)
        return min(max(MOST_RANKED_PAIRS // max(entities, 1), FEWEST_RANKED), MOST_RANKED)


class EvaluateConfig(Config):
    """The settings of the evaluation, which measures the calibrated probabilities on the test split."""

    stage: ClassVar[str] = "evaluate"
    first: ClassVar[tuple[str, ...]] = ()

    bins: int = setting(10, "number of bins of the calibration errors and the diagrams", ge=2, le=1000)
    bootstrap_replicates: int = setting(200, "bootstrap replicates of the test triples for the intervals", ge=50)
    bootstrap_level: float = setting(0.95, "confidence level of the intervals", gt=0.5, lt=1)
    bootstrap_seed: int = setting(0, "seed of the bootstrap for the intervals", ge=0)


class ReportConfig(Config):
    """The settings of the report: none."""

    stage: ClassVar[str] = "report"
