"""The settings of each stage but match and calibrate, which are in calibrate.py."""

from dataclasses import dataclass, replace
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.config.calibrate import ASSUMED_BASE_RATE
from kgcore.config.choices import (
    AUTO,
    ETA_SPELLING,
    SIDES_SPELLING,
    TRAINING_ONLY,
    check_draws_without_training,
    object_share,
)
from kgcore.errors import InputError
from kgcore.registries import LOSSES, MODELS, OPTIMISERS, STRATEGIES

FEWEST_ETA = 20
ENOUGH = 100
LOW = 0.05
MOST_CORRUPTIONS = 5_000_000  # 0.5 GB of scores


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """The embedding model and its training. The defaults were chosen on the validation split of WN11."""

    stage: ClassVar[str] = "train"

    model: str = setting("transe", "scoring function", choices=MODELS)
    model_options: dict[str, float | bool] = setting({}, "options of the scoring function", options_of=MODELS)
    loss: str = setting("self_adversarial", "training loss", choices=LOSSES)
    loss_options: dict[str, float | bool] = setting({}, "options of the loss", options_of=LOSSES)
    k: int = setting(100, "embedding size", ge=1)
    training_eta: int = setting(20, "corruptions per positive in training", ge=1)
    training_strategy: dict[str, float] = setting(
        {"uniform": 1.0}, "corruption strategies in training and their shares", choices=STRATEGIES
    )
    training_sides: str = setting("both", "which side a corruption in training replaces", spelling=SIDES_SPELLING)
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
    optimiser: str = setting(
        "adam",
        "optimiser; adagrad is for graphs whose tables do not fit into the memory with adam: it needs a third of it; "
        "distances like transe are as good with it, dot products are worse",
        choices=OPTIMISERS,
    )
    learning_rate: float = setting(5e-3, "step size of the optimiser at the start", gt=0)
    learning_rate_end: float = setting(
        0.0, "final step size as a share of the learning rate; the decay is linear", ge=0, le=1
    )
    lp_weight: float = setting(0.0, "weight of the LP regulariser on the embeddings of the positives in a batch", ge=0)
    lp_power: float = setting(2.0, "power p of the LP regulariser", ge=1)
    dropout: float = setting(0.0, "share of an entity's embedding that each step sets to zero", ge=0, lt=1)
    initial_scale: float = setting(1.0, "factor that multiplies the range of the initial embeddings", gt=0)
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inverse_relations and object_share(self.training_sides) in (0, 1):
            raise InputError(
                f"training_sides is {self.training_sides}: with inverse relations both sides must be corrupted"
            )


@dataclass(frozen=True, kw_only=True)
class CorruptConfig(Config):
    """The corruptions that serve as negatives in synthetic calibration, made from the validation positives.

    If a data set has no labelled negatives, the same settings make the test negatives from the test positives.
    docs/explanation/corruptions.md gives the reasons for the defaults.
    """

    stage: ClassVar[str] = "corrupt"

    calibration_strategy: dict[str, float] = setting(
        {"typed": 0.5, "similar": 0.5},
        "corruption strategies in calibration and their shares",
        choices=STRATEGIES.without(TRAINING_ONLY),
        check=check_draws_without_training,
    )
    calibration_sides: str = setting(
        "bernoulli", "which side a corruption in calibration replaces", spelling=SIDES_SPELLING
    )
    calibration_eta: str = setting(
        AUTO,
        "corruptions per positive in calibration; auto draws 20, and more for a low base rate, or makes all of them if "
        "there are not more",
        spelling=ETA_SPELLING,
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibration_eta", str(self.calibration_eta))  # Python code may pass a number
        super().__post_init__()

    def eta(self, positives: int) -> int:
        """Return the corruptions per positive, for this number of positives.

        `auto`: at the base rate alpha, a triple of likelihood ratio (1 - alpha) / alpha has the probability 1/2. Hardly
        a share alpha of the negatives has a higher ratio. So that about ENOUGH of them are in the sample, ENOUGH /
        alpha corruptions are drawn, but at least FEWEST_ETA for each positive, and at most MOST_CORRUPTIONS.
        """
        if self.calibration_eta != AUTO:
            return int(self.calibration_eta)
        needed = min(round(ENOUGH / self.settled().for_base_rate), MOST_CORRUPTIONS)
        return max(-(-needed // max(positives, 1)), FEWEST_ETA)

    def all_up_to(self, positives: int) -> int | None:
        """Return the largest number of corruptions at which all of them are made, instead of a draw; None: never.

        It is the number that `auto` would draw for this number of positives. If a positive has fewer corruptions than
        draws, the draws repeat them. All of them, with their probabilities as weights, say the same without chance.
        """
        return self.eta(positives) * positives if self.calibration_eta == AUTO else None

    def looks_at(self, positives: int) -> int | None:
        """Return the number of corruptions that scoring looks at, if it is more than `eta` draws; None: only at these.

        It is ENOUGH / alpha for `auto`. They do not fit in memory, so only the highest scores are kept: see
        kgcore/score_search.py.
        """
        if self.calibration_eta != AUTO:
            return None
        needed = round(ENOUGH / self.settled().for_base_rate)
        return needed if needed > self.eta(positives) * positives else None

    def settled(self) -> "CorruptConfig":
        """Return the settings without the base rate, if it does not matter. So runs of other base rates are re-used.

        From the base rate LOW on, the 20 corruptions of each of 100 positives are enough.
        """
        matters = self.calibration_eta == AUTO and self.for_base_rate < LOW
        return self if matters else replace(self, for_base_rate=ASSUMED_BASE_RATE)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(Config):
    """The settings of scoring: none, because the model and the triples determine the scores."""

    stage: ClassVar[str] = "score"


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(Config):
    """The settings of the decisions from probabilities."""

    stage: ClassVar[str] = "classify"

    tau: float = setting(0.5, "decision threshold: a triple with a probability above it counts as true", gt=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class RankConfig(Config):
    """The settings of filtered ranks: none."""

    stage: ClassVar[str] = "rank"


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Config):
    """The settings of the evaluation, which measures the calibrated probabilities on the test split."""

    stage: ClassVar[str] = "evaluate"

    bins: int = setting(10, "number of bins of the calibration errors and the diagrams", ge=2)
    bootstrap_replicates: int = setting(200, "bootstrap replicates of the test triples for the intervals", ge=50)
    bootstrap_level: float = setting(0.95, "confidence level of the intervals", gt=0.5, lt=1)
    bootstrap_seed: int = setting(0, "seed of the bootstrap for the intervals", ge=0)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Config):
    """The settings of the report: none."""

    stage: ClassVar[str] = "report"
