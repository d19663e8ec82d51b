"""Settings that may be missing: the settings that a user gives or a preset decides.

Each config class has a counterpart here with the same settings. In the counterpart, None means "not given". A setting
that is given with its default value counts as given, and a preset does not replace it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_type_hints

from kgcore.config.base import Config, check_setting, default_text
from kgcore.config.stages import (
    CalibrateConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
)

C = TypeVar("C", bound=Config)
G = TypeVar("G", bound="Given[Any]")
S = TypeVar("S", bound="Config | Given[Any]")

# The settings that a preset may decide. All other settings come from the user or have their defaults.
BY_PRESET = frozenset(
    {
        "loss",
        "loss_options",
        "k",
        "training_eta",
        "training_strategy",
        "training_sides",
        "sides_apart",
        "epochs",
        "batch_size",
        "chunk_size",
        "learning_rate",
        "learning_rate_end",
        "lp_weight",
        "lp_power",
        "cohort_weight",
        "cohort_temperature",
        "calibration_strategy",
        "calibration_sides",
        "calibration_filtered",
        "calibrators",
    }
)


@dataclass(frozen=True, kw_only=True)
class Given(Generic[C]):
    """Settings of a config class C, each of them a value or None for "not given".

    config  the class C

    The class checks every given value on creation. Raises InputError if a value is not allowed.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # misspelt settings are refused
    config: ClassVar[type[Config]]

    if TYPE_CHECKING:  # the fields are the fields of C: see `counterpart_of`

        def __init__(self, **settings: Any) -> None: ...

    def __post_init__(self) -> None:
        for item in fields(self):
            if (value := getattr(self, item.name)) is not None:
                check_setting(item, value)

    def given(self) -> Mapping[str, Any]:
        """Name -> value of each given setting."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def over(self, settings: S) -> S:
        """A copy of `settings` with the given values. Options of components are replaced one by one.

        Raises InputError if settings contradict each other.
        """
        changed = dict(self.given())
        for item in fields(self):
            if item.name in changed and "options_of" in item.metadata:
                changed[item.name] = (getattr(settings, item.name) or {}) | changed[item.name]
        return replace(settings, **changed)

    def added_to(self, other: "Given[C]") -> tuple[str, ...]:
        """The names of the given settings that are missing in `other`, or that have options missing in `other`."""
        there, mine = other.given(), self.given()
        options = {item.name for item in fields(self) if "options_of" in item.metadata}
        return tuple(
            name
            for name, value in mine.items()
            if name not in there or (name in options and value.keys() - there[name].keys())
        )


def counterpart_of(config: type[Config]) -> Callable[[type[G]], type[G]]:
    """Decorator that adds the settings of a config class to a subclass of `Given`: same names, types and checks."""

    def complete(cls: type[G]) -> type[G]:
        kinds = get_type_hints(config)
        cls.__annotations__ = {item.name: kinds[item.name] | None for item in fields(config)}
        for item in fields(config):
            instead = "the preset's value, otherwise " if item.name in BY_PRESET else ""
            text = f"{item.metadata['description']}. If not given: {instead}{default_text(item)}"
            setattr(cls, item.name, field(default=None, metadata={**item.metadata, "description": text}))
        cls.config = config
        return dataclass(frozen=True, kw_only=True)(cls)

    return complete


@counterpart_of(PrepareConfig)
class PrepareGiven(Given[PrepareConfig]):
    """The given settings of the graph."""


@counterpart_of(TrainConfig)
class TrainGiven(Given[TrainConfig]):
    """The given settings of the embedding model and its training."""


@counterpart_of(CorruptConfig)
class CorruptGiven(Given[CorruptConfig]):
    """The given settings of the corruptions in calibration."""


@counterpart_of(CalibrateConfig)
class CalibrateGiven(Given[CalibrateConfig]):
    """The given settings of calibration."""


@counterpart_of(ClassifyConfig)
class ClassifyGiven(Given[ClassifyConfig]):
    """The given settings of the decisions."""


@counterpart_of(EvaluateConfig)
class EvaluateGiven(Given[EvaluateConfig]):
    """The given settings of the evaluation."""


@dataclass(frozen=True)
class PipelineGiven:
    """The given settings of a whole pipeline, by stage."""

    prepare: PrepareGiven = PrepareGiven()
    train: TrainGiven = TrainGiven()
    corrupt: CorruptGiven = CorruptGiven()
    calibrate: CalibrateGiven = CalibrateGiven()
    classify: ClassifyGiven = ClassifyGiven()
    evaluate: EvaluateGiven = EvaluateGiven()

    def over(self, configs: PipelineConfigs) -> PipelineConfigs:
        """A copy of `configs` with the given values.

        Raises InputError if settings contradict each other.
        """
        return PipelineConfigs(
            prepare=self.prepare.over(configs.prepare),
            train=self.train.over(configs.train),
            corrupt=self.corrupt.over(configs.corrupt),
            calibrate=self.calibrate.over(configs.calibrate),
            classify=self.classify.over(configs.classify),
            evaluate=self.evaluate.over(configs.evaluate),
        )

    def added_to(self, other: "PipelineGiven") -> tuple[str, ...]:
        """The names of the given settings that are missing in `other`, in the order of the stages."""
        stages = ((getattr(self, item.name), getattr(other, item.name)) for item in fields(self))
        return tuple(name for mine, theirs in stages for name in mine.added_to(theirs))
