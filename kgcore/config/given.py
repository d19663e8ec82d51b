"""Incomplete settings: those that a user gives, or those that a preset decides.

For each config class there is a class here with the same settings, in which None means "not given". If a user gives a
setting its default value, it still counts as given, and a preset does not replace it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_type_hints

from kgcore.config.base import Config, check_setting, default_text
from kgcore.config.calibrate import CalibrateConfig, MatchConfig
from kgcore.config.evidence import EvidenceConfig
from kgcore.config.pipeline import PipelineConfigs
from kgcore.config.prepare import PrepareConfig
from kgcore.config.race import ChooseConfig
from kgcore.config.stages import (
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    TrainConfig,
)

C = TypeVar("C", bound=Config)
G = TypeVar("G", bound="Given[Any]")
S = TypeVar("S", bound="Config | Given[Any]")

# The settings that a preset may decide. All other settings come from the user or have their defaults.
BY_PRESET = frozenset(
    {
        "model",
        "model_options",
        "loss",
        "loss_options",
        "k",
        "training_eta",
        "training_strategy",
        "training_sides",
        "training_filtered",
        "sides_apart",
        "inverse_relations",
        "epochs",
        "batch_size",
        "chunk_size",
        "learning_rate",
        "learning_rate_end",
        "lp_weight",
        "lp_power",
        "dropout",
        "initial_scale",
        "cohort_weight",
        "cohort_size",
        "cohort_temperature",
        "calibration_eta",
        "calibration_strategy",
        "calibration_sides",
        "calibration_filtered",
        "calibrators",
        "combine_rounds",
    }
)


@dataclass(frozen=True, kw_only=True)
class Given(Generic[C]):
    """The settings of a config class C, where each is a value, or None for "not given".

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
        """Return name -> value of each given setting."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def over(self, settings: S) -> S:
        """Return a copy of `settings` in which the given values replace the old ones.

        Options of the model or the loss are replaced one by one: an option that is not given keeps its old value.

        Raises InputError if settings contradict each other.
        """
        changed = dict(self.given())
        for item in fields(self):
            if item.name in changed and "options_of" in item.metadata:
                changed[item.name] = (getattr(settings, item.name) or {}) | changed[item.name]
        return replace(settings, **changed)

    def added_to(self, other: "Given[C]") -> tuple[str, ...]:
        """Return the names of the settings that are given here but not in `other`.

        A setting that holds options is included if one of its options is given here but not in `other`.
        """
        there, mine = other.given(), self.given()
        options = {item.name for item in fields(self) if "options_of" in item.metadata}
        return tuple(
            name
            for name, value in mine.items()
            if name not in there or (name in options and value.keys() - there[name].keys())
        )


def counterpart_of(config: type[Config]) -> Callable[[type[G]], type[G]]:
    """Return a decorator that adds the settings of a config class to a subclass of `Given`.

    The settings have the same names and checks as in the config class, and the same types or None.
    """

    def complete(cls: type[G]) -> type[G]:
        kinds = get_type_hints(config)
        cls.__annotations__ = {item.name: kinds[item.name] | None for item in fields(config)}
        for item in fields(config):
            instead = "the preset's value, otherwise " if item.name in BY_PRESET else ""
            text = f"{item.metadata['description']}. If not given: {instead}{default_text(item)}"
            extra = {} if item.default is None else {"json_schema_extra": item.metadata.get("json_schema_extra")}
            metadata = {**item.metadata, "json_schema_extra": None, **extra, "description": text}
            setattr(cls, item.name, field(default=None, metadata=metadata))
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


@counterpart_of(MatchConfig)
class MatchGiven(Given[MatchConfig]):
    """The given settings of the candidates to calibrate to."""


@counterpart_of(ChooseConfig)
class ChooseGiven(Given[ChooseConfig]):
    """The given settings of the race of the preset `auto`."""


@counterpart_of(EvidenceConfig)
class EvidenceGiven(Given[EvidenceConfig]):
    """The given settings of the evidence that calibrators see."""


@dataclass(frozen=True)
class PipelineGiven:
    """The given settings of a whole pipeline, by stage."""

    prepare: PrepareGiven = PrepareGiven()
    train: TrainGiven = TrainGiven()
    corrupt: CorruptGiven = CorruptGiven()
    calibrate: CalibrateGiven = CalibrateGiven()
    classify: ClassifyGiven = ClassifyGiven()
    evaluate: EvaluateGiven = EvaluateGiven()
    match: MatchGiven = MatchGiven()
    choose: ChooseGiven = ChooseGiven()
    evidence: EvidenceGiven = EvidenceGiven()

    def over(self, configs: PipelineConfigs) -> PipelineConfigs:
        """Return a copy of `configs` in which the given values replace the old ones, as in `Given.over`.

        Raises InputError if settings contradict each other.
        """
        return PipelineConfigs(
            prepare=self.prepare.over(configs.prepare),
            train=self.train.over(configs.train),
            corrupt=self.corrupt.over(configs.corrupt),
            calibrate=self.calibrate.over(configs.calibrate),
            classify=self.classify.over(configs.classify),
            evaluate=self.evaluate.over(configs.evaluate),
            match=self.match.over(configs.match),
            choose=self.choose.over(configs.choose),
            evidence=self.evidence.over(configs.evidence),
        )

    def added_to(self, other: "PipelineGiven") -> tuple[str, ...]:
        """Return the names of the settings given here but not in `other`, stage by stage, as `Given.added_to`."""
        stages = ((getattr(self, item.name), getattr(other, item.name)) for item in fields(self))
        return tuple(name for mine, theirs in stages for name in mine.added_to(theirs))
