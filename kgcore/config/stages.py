"""The settings of each stage, and of a whole pipeline."""

from dataclasses import dataclass
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.config.choices import TAUGHT, check_sides, object_share
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS, LOSSES, MODELS, STRATEGIES


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Config):
    """Which graph. `size` and `graph_seed` concern the generated family graph alone."""

    stage: ClassVar[str] = "prepare"

    dataset: str = setting(
        "family", "data set: a name that `kgcal datasets` lists, or a folder with train.txt, valid.txt, test.txt"
    )
    size: int = setting(2_000, "people in the generated family graph", ge=200)
    graph_seed: int = setting(0, "seed of the generated family graph", ge=0)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """The embedding model and how it is trained. The defaults were chosen on the validation split of WN11."""

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
    training_sides: str = setting("both", "which side a corruption in training replaces", check=check_sides)
    training_filtered: bool = setting(False, "leave out corruptions in training that are training facts")
    sides_apart: bool = setting(
        False, "compare a positive with its corruptions of each side separately, and add the two losses"
    )
    inverse_relations: bool = setting(
        False, "learn an inverse of every predicate and corrupt only objects, of both directions: twice the positives"
    )
    epochs: int = setting(100, "passes over the training triples", ge=1)
    batch_size: int = setting(1152, "positives per step", ge=1)
    chunk_size: int = setting(
        64, "positives that share their corruptions; 1 = each positive draws its own, as in the paper", ge=1
    )
    learning_rate: float = setting(5e-3, "Adam's step size at the start", gt=0)
    learning_rate_end: float = setting(
        0.0, "final step size, as a share of the learning rate; the decay is linear", ge=0, le=1
    )
    lp_weight: float = setting(0.0, "weight of the LP regulariser on the embeddings of a step's positives", ge=0)
    lp_power: float = setting(2.0, "p of the LP regulariser", ge=1)
    dropout: float = setting(0.0, "share of an entity's numbers that a step sets to 0", ge=0, lt=1)
    initial_scale: float = setting(1.0, "factor on the range of the initial embeddings", gt=0)
    cohort_weight: float = setting(
        0.0, "weight of the cohort term: the level of the predicate's objects that a score is reduced by", ge=0, le=1
    )
    cohort_size: int = setting(500, "largest number of objects in a predicate's cohort", ge=1)
    cohort_temperature: float = setting(
        0.5, "cohort temperature: near 0 takes the maximum, large values the mean", gt=0
    )
    seed: int = setting(0, "seed of initialisation, order, corruptions and cohorts in training", ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inverse_relations and object_share(self.training_sides) in (0, 1):
            raise InputError(
                f"training_sides is {self.training_sides}: with inverse relations both sides must be corrupted"
            )


@dataclass(frozen=True, kw_only=True)
class CorruptConfig(Config):
    """The corruptions that stand for negatives in synthetic calibration, made from the validation positives. Where a
    data set has no labelled negatives, the same settings make the test negatives from the test positives.

    Reasons for the defaults: docs/explanation/corruptions.md."""

    stage: ClassVar[str] = "corrupt"

    calibration_strategy: dict[str, float] = setting(
        {"typed": 0.9, "uniform": 0.1},
        "corruption strategies in calibration and their shares",
        choices=STRATEGIES.without(TAUGHT),
    )
    calibration_sides: str = setting("bernoulli", "which side a corruption in calibration replaces", check=check_sides)
    calibration_eta: int = setting(20, "corruptions per positive in calibration", ge=1)
    calibration_filtered: bool = setting(True, "leave out corruptions in calibration that are known facts")
    calibration_seed: int = setting(0, "seed of the corruptions in calibration", ge=0)

    def __post_init__(self) -> None:
        for name in sorted(TAUGHT & set(self.calibration_strategy)):
            raise InputError(
                f"calibration_strategy is {name!r}: this strategy exists in training only, where it learns"
            )
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(Config):
    """Scoring has no settings: it is determined by the model and the triples."""

    stage: ClassVar[str] = "score"


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig(Config):
    """How scores become probabilities."""

    stage: ClassVar[str] = "calibrate"

    calibrators: tuple[str, ...] = setting(("platt", "isotonic"), "calibrators to fit", choices=CALIBRATORS)
    base_rate: float = setting(0.5, "share of positives the probabilities are to be about (alpha)", gt=0, lt=1)
    weighted: bool = setting(True, "weight synthetic negatives to the base rate; off only to see what it does")


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(Config):
    """Decisions."""

    stage: ClassVar[str] = "classify"

    tau: float = setting(0.5, "a triple is called true when its probability is above this", gt=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class RankConfig(Config):
    """Filtered ranks have no settings."""

    stage: ClassVar[str] = "rank"


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Config):
    """How calibration is measured."""

    stage: ClassVar[str] = "evaluate"

    bins: int = setting(10, "bins of the calibration errors and the diagrams", ge=2)
    bootstrap_replicates: int = setting(200, "resamplings of the test triples that intervals are made from", ge=50)
    bootstrap_level: float = setting(0.95, "confidence of the intervals", gt=0.5, lt=1)
    bootstrap_seed: int = setting(0, "seed of the resamplings", ge=0)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Config):
    """The report has no settings."""

    stage: ClassVar[str] = "report"


@dataclass(frozen=True)
class PipelineConfigs:
    """The settings of a whole pipeline, by stage."""

    prepare: PrepareConfig = PrepareConfig()
    train: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()
    calibrate: CalibrateConfig = CalibrateConfig()
    classify: ClassifyConfig = ClassifyConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
