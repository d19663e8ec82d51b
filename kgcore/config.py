"""What can be set, stage by stage: frozen dataclasses that hold every default once and refuse what cannot work.

The command line, the Prefect parameters and the cache keys are all made from these fields and their descriptions.
"""

import math
from dataclasses import Field, dataclass, field, fields
from typing import Any

from kgcore.calibration import CALIBRATORS
from kgcore.corruptions import SIDES, STRATEGIES
from kgcore.errors import InputError
from kgcore.losses import LOSSES
from kgcore.models import MODELS
from kgcore.registry import Registry


def setting(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] | Registry[Any] | None = None,
) -> Any:
    """A field with its description and its range: `at_least` and `at_most` are allowed, `above` and `below` are not."""
    bounds = {"at_least": at_least, "above": above, "below": below, "at_most": at_most}
    metadata = {"help": help, "bounds": bounds, "choices": choices}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of the stages' settings: checks every field against its range on creation. Raises InputError."""

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
            _check_bounds(item.name, value, item.metadata.get("bounds", {}))


def describe(item: "Field[Any]") -> str:
    """A setting's description, with its choices or its range."""
    text, choices = str(item.metadata["help"]), item.metadata["choices"]
    if choices is not None:
        return f"{text}: {', '.join(choices.names() if isinstance(choices, Registry) else choices)}"
    limits = _limits(item.metadata["bounds"])
    return f"{text} ({limits})" if limits else text


def _limits(bounds: dict[str, float | None]) -> str:
    words = {"at_least": "at least", "above": "above", "below": "below", "at_most": "at most"}
    return " and ".join(f"{words[name]} {bound:g}" for name, bound in bounds.items() if bound is not None)


def _check_shares(name: str, shares: dict[str, float]) -> None:
    if not shares or any(not (math.isfinite(share) and share > 0) for share in shares.values()):
        raise InputError(f"{name} is {shares!r}: at least one share is needed, each above 0")


def _check_bounds(name: str, value: Any, bounds: dict[str, float | None]) -> None:
    at_least, above, below, at_most = (bounds.get(b) for b in ("at_least", "above", "below", "at_most"))
    if all(bound is None for bound in (at_least, above, below, at_most)) or value is None:
        return
    low_ok = (at_least is None or value >= at_least) and (above is None or value > above)
    high_ok = (below is None or value < below) and (at_most is None or value <= at_most)
    if low_ok and high_ok and math.isfinite(value):
        return
    raise InputError(f"{name} is {value!r}: it must be {_limits(bounds)}")


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Config):
    """Which graph. `size` and `graph_seed` concern the generated family graph alone."""

    dataset: str = setting(
        "family", "data set: a name that `kgcal datasets` lists, or a folder with train.txt, valid.txt, test.txt"
    )
    size: int = setting(2_000, "people in the generated family graph", at_least=200)
    graph_seed: int = setting(0, "seed of the generated family graph", at_least=0)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """The embedding model and how it is trained. The defaults were chosen on the validation split of WN11."""

    model: str = setting("transe", "scoring function", choices=MODELS)
    model_options: dict[str, float] = setting({}, "options of the scoring function, such as norm=2")
    loss: str = setting("self_adversarial", "training loss", choices=LOSSES)
    loss_options: dict[str, float] = setting({}, "options of the loss, such as margin=3")
    k: int = setting(100, "embedding size", at_least=1)
    eta: int = setting(20, "corruptions per positive in training", at_least=1)
    negatives: dict[str, float] = setting(
        {"uniform": 1.0}, "corruption strategies in training and their shares, such as typed=0.5", choices=STRATEGIES
    )
    object_share: float = setting(0.5, "share of the corruptions that replace the object", at_least=0, at_most=1)
    sides_apart: bool = setting(
        False, "let a positive compete with the corruptions of each side apart, and add the two losses"
    )
    epochs: int = setting(100, "passes over the training triples", at_least=1)
    batch_size: int = setting(1152, "positives a step", at_least=1)
    chunk_size: int = setting(
        64, "positives that share their eta corruptions; 1 = every positive draws its own, as in the paper", at_least=1
    )
    learning_rate: float = setting(5e-3, "Adam's step size at the start", above=0)
    learning_rate_end: float = setting(
        0.0, "share of the learning rate that is left at the end, to which it falls linearly", at_least=0, at_most=1
    )
    lp_weight: float = setting(0.0, "weight of the LP regulariser on the embeddings of a step's positives", at_least=0)
    lp_power: float = setting(2.0, "p of the LP regulariser", at_least=1)
    seed: int = setting(0, "seed of initialisation, order and corruptions", at_least=0)


@dataclass(frozen=True, kw_only=True)
class CorruptConfig(Config):
    """The synthetic negatives: corruptions of the validation positives (and of the test positives of a data set
    that has no labelled negatives)."""

    strategy: str = setting("uniform", "how a replacement is drawn", choices=STRATEGIES)
    sides: str = setting("both", "which side is replaced", choices=SIDES)
    calibration_eta: int = setting(20, "corruptions per positive", at_least=1)
    filtered: bool = setting(True, "drop corruptions that are known facts")
    corruption_seed: int = setting(0, "seed of the corruptions", at_least=0)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(Config):
    """Scoring has no settings: it is determined by the model and the triples."""


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig(Config):
    """How scores become probabilities."""

    calibrators: tuple[str, ...] = setting(("platt", "isotonic"), "calibrators to fit", choices=CALIBRATORS)
    base_rate: float = setting(0.5, "share of positives the probabilities are to be about (alpha)", above=0, below=1)
    weighted: bool = setting(True, "weight synthetic negatives to the base rate; off only to see what it does")


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(Config):
    """Decisions."""

    tau: float = setting(0.5, "a triple is called true when its probability is above this", above=0, below=1)


@dataclass(frozen=True, kw_only=True)
class RankConfig(Config):
    """Filtered ranks have no settings."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Config):
    """How calibration is measured."""

    bins: int = setting(10, "equal-width bins of the calibration error and the diagrams", at_least=2)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Config):
    """The report has no settings."""


@dataclass(frozen=True, kw_only=True)
class GateConfig(Config):
    """When a challenger takes the champion's place."""

    level: float = setting(0.95, "confidence of the interval beyond which it must be better", above=0.5, below=1)
    replicates: int = setting(1000, "bootstrap replicates", at_least=100)
    gate_seed: int = setting(0, "seed of the bootstrap", at_least=0)


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Config):
    """When newly labelled triples say that a model no longer fits."""

    alpha: float = setting(0.01, "a test whose p is below this has found something", above=0, below=1)
    ece: float = setting(0.02, "a calibration error below this is none to act on", at_least=0, below=1)
    psi: float = setting(0.2, "a stability index above this counts as drift, where it is beyond sampling", above=0)
    at_least: int = setting(50, "newly labelled triples that are needed to judge", at_least=10)
    on_drift: str = setting("warn", "what is done about it", choices=("warn", "recalibrate"))


@dataclass(frozen=True)
class PipelineConfigs:
    """The settings of a whole pipeline, by stage."""

    prepare: PrepareConfig = PrepareConfig()
    train: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()
    calibrate: CalibrateConfig = CalibrateConfig()
    classify: ClassifyConfig = ClassifyConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
