"""What can be set, stage by stage: frozen dataclasses that hold every default once and refuse what cannot work.

The command line, the Prefect parameters and the cache keys are all made from these fields and their descriptions.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

from kgcore.calibration import CALIBRATORS
from kgcore.corruptions import SIDES, STRATEGIES, TAUGHT
from kgcore.ensembles import POOLS
from kgcore.errors import InputError
from kgcore.losses import LOSSES
from kgcore.models import MODELS
from kgcore.registry import Registry
from kgcore.tuning import FEWEST_EPOCHS, METRICS, SEARCHABLE, SEARCHED

LIMITS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "ge": ("at least", operator.ge),
    "gt": ("above", operator.gt),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}


def setting(
    default: Any,
    description: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    choices: tuple[str, ...] | Registry[Any] | None = None,
) -> Any:
    """A field with its description and its range: `ge` and `le` are allowed, `gt` and `lt` are not.

    The names in the metadata are those that pydantic knows, from which Prefect makes the form of a deployment and
    checks what is filled in; a setting that holds several choices is a tuple of them, or a mapping of them to shares.
    """
    limits = {"ge": ge, "gt": gt, "lt": lt, "le": le}
    metadata: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    metadata["description"] = description
    if choices is not None:
        metadata |= {"choices": choices, "json_schema_extra": partial(_enumerate, choices)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _enumerate(choices: tuple[str, ...] | Registry[Any], schema: dict[str, Any]) -> None:
    """Enter the choices into the JSON schema of a setting: of it, of its entries, or of the names of its shares."""
    names = _names(choices)
    if schema["type"] == "array":
        schema |= {"items": {"type": "string", "enum": names}, "minItems": 1, "uniqueItems": True}
    elif schema["type"] == "object":
        schema |= {"propertyNames": {"enum": names}, "minProperties": 1}
        schema |= {"additionalProperties": {"type": "number", "exclusiveMinimum": 0}}
    else:
        schema["enum"] = names


def _names(choices: tuple[str, ...] | Registry[Any]) -> list[str]:
    return choices.names() if isinstance(choices, Registry) else list(choices)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of the stages' settings: checks every field against its range on creation. Raises InputError."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # a misspelt setting is refused, not left out

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            choices = item.metadata.get("choices")
            if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
                raise InputError(f"{item.name} is {', '.join(value) or 'empty'}: at least one is needed, none twice")
            entries = value if isinstance(value, tuple | dict) else (value,)
            for entry in entries:
                if isinstance(choices, Registry):
                    choices.check(entry)
                elif choices is not None and entry not in choices:
                    raise InputError(f"{item.name} is {entry!r}: it must be one of {', '.join(choices)}")
            if isinstance(value, dict) and choices is not None:
                _check_shares(item.name, value)
            _check_range(item, value)


def describe(item: "Field[Any]") -> str:
    """A setting's description, with its choices or its range."""
    text, choices = str(item.metadata["description"]), item.metadata.get("choices")
    if choices is not None:
        return f"{text}: {', '.join(_names(choices))}"
    limits = _range(item)
    return f"{text} ({limits})" if limits else text


def _limits(item: "Field[Any]") -> dict[str, float]:
    return {name: item.metadata[name] for name in LIMITS if name in item.metadata}


def _range(item: "Field[Any]") -> str:
    return " and ".join(f"{LIMITS[name][0]} {limit:g}" for name, limit in _limits(item).items())


def _check_shares(name: str, shares: dict[str, float]) -> None:
    if not shares or any(not (math.isfinite(share) and share > 0) for share in shares.values()):
        raise InputError(f"{name} is {shares!r}: at least one share is needed, each above 0")


def _check_range(item: "Field[Any]", value: Any) -> None:
    limits = _limits(item)
    if limits and not (math.isfinite(value) and all(LIMITS[name][1](value, limit) for name, limit in limits.items())):
        raise InputError(f"{item.name} is {value!r}: it must be {_range(item)}")


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Config):
    """Which graph. `size` and `graph_seed` concern the generated family graph alone."""

    dataset: str = setting(
        "family", "data set: a name that `kgcal datasets` lists, or a folder with train.txt, valid.txt, test.txt"
    )
    size: int = setting(2_000, "people in the generated family graph", ge=200)
    graph_seed: int = setting(0, "seed of the generated family graph", ge=0)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """The embedding model and how it is trained. The defaults were chosen on the validation split of WN11."""

    model: str = setting("transe", "scoring function", choices=MODELS)
    model_options: dict[str, float] = setting({}, "options of the scoring function, such as norm=2")
    loss: str = setting("self_adversarial", "training loss", choices=LOSSES)
    loss_options: dict[str, float] = setting({}, "options of the loss, such as margin=3")
    k: int = setting(100, "embedding size", ge=1)
    eta: int = setting(20, "corruptions per positive in training", ge=1)
    negatives: dict[str, float] = setting(
        {"uniform": 1.0}, "corruption strategies in training and their shares, such as typed=0.5", choices=STRATEGIES
    )
    object_share: float = setting(0.5, "share of the corruptions that replace the object", ge=0, le=1)
    bernoulli: bool = setting(False, "each predicate's own share instead, by what its facts are like")
    filter_training: bool = setting(False, "leave out corruptions in training that are training facts")
    sides_apart: bool = setting(
        False, "let a positive compete with the corruptions of each side apart, and add the two losses"
    )
    inverse_relations: bool = setting(
        False,
        "learn an inverse of every predicate, against whose objects the subjects' corruptions go: twice the positives",
    )
    epochs: int = setting(100, "passes over the training triples", ge=1)
    batch_size: int = setting(1152, "positives a step", ge=1)
    chunk_size: int = setting(
        64, "positives that share their eta corruptions; 1 = every positive draws its own, as in the paper", ge=1
    )
    learning_rate: float = setting(5e-3, "Adam's step size at the start", gt=0)
    learning_rate_end: float = setting(
        0.0, "share of the learning rate that is left at the end, to which it falls linearly", ge=0, le=1
    )
    lp_weight: float = setting(0.0, "weight of the LP regulariser on the embeddings of a step's positives", ge=0)
    lp_power: float = setting(2.0, "p of the LP regulariser", ge=1)
    dropout: float = setting(0.0, "share of an entity's numbers that a step takes as 0", ge=0, lt=1)
    initial_scale: float = setting(1.0, "factor on the range in which the model's embeddings start", gt=0)
    cohort_weight: float = setting(
        0.0, "share of the level of a predicate's objects that is taken off a triple's score", ge=0, le=1
    )
    cohort_size: int = setting(500, "most objects of a predicate that its level is taken of", ge=1)
    cohort_temperature: float = setting(0.5, "whose level it is: near 0 the best object's, large the mean one's", gt=0)
    seed: int = setting(0, "seed of initialisation, order, corruptions and cohorts", ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inverse_relations and self.object_share in (0, 1):
            raise InputError(
                f"object_share is {self.object_share:g}: with inverse relations it must be above 0 and below 1"
            )


@dataclass(frozen=True, kw_only=True)
class CorruptConfig(Config):
    """The synthetic negatives: corruptions of the validation positives (and of the test positives of a data set
    that has no labelled negatives). Which defaults and why: docs/beyond-the-paper.md."""

    strategy: dict[str, float] = setting(
        {"typed": 0.9, "uniform": 0.1},
        "corruption strategies of the synthetic negatives and their shares",
        choices=STRATEGIES.without(TAUGHT),
    )
    sides: str = setting("bernoulli", "which side is replaced", choices=SIDES)
    calibration_eta: int = setting(20, "corruptions per positive", ge=1)
    filtered: bool = setting(True, "drop corruptions that are known facts")
    corruption_seed: int = setting(0, "seed of the corruptions", ge=0)

    def __post_init__(self) -> None:
        for name in sorted(TAUGHT & set(self.strategy)):
            raise InputError(f"strategy is {name!r}: it learns while a model is trained, and draws for nothing else")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(Config):
    """Scoring has no settings: it is determined by the model and the triples."""


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig(Config):
    """How scores become probabilities."""

    calibrators: tuple[str, ...] = setting(("platt", "isotonic"), "calibrators to fit", choices=CALIBRATORS)
    base_rate: float = setting(0.5, "share of positives the probabilities are to be about (alpha)", gt=0, lt=1)
    weighted: bool = setting(True, "weight synthetic negatives to the base rate; off only to see what it does")


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(Config):
    """Decisions."""

    tau: float = setting(0.5, "a triple is called true when its probability is above this", gt=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class RankConfig(Config):
    """Filtered ranks have no settings."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Config):
    """How calibration is measured."""

    bins: int = setting(10, "bins of the calibration errors and the diagrams", ge=2)
    bootstrap_replicates: int = setting(200, "resamplings of the test triples that intervals are made from", ge=50)
    bootstrap_level: float = setting(0.95, "confidence of the intervals", gt=0.5, lt=1)
    bootstrap_seed: int = setting(0, "seed of the resamplings", ge=0)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Config):
    """The report has no settings."""


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
    metric: str = setting("brier", "figure of validation that is made better", choices=tuple(METRICS))
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


@dataclass(frozen=True)
class PipelineConfigs:
    """The settings of a whole pipeline, by stage."""

    prepare: PrepareConfig = PrepareConfig()
    train: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()
    calibrate: CalibrateConfig = CalibrateConfig()
    classify: ClassifyConfig = ClassifyConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
