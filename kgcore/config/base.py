"""The base class of all settings: pydantic models, whose fields have a description and allowed values.

The command line, the Prefect forms, MLproject and the cache keys come from these fields. The allowed values are names,
spellings, and the choices that no registry of components lists.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Self, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails

from kgcore.errors import InputError
from kgcore.registries import STRATEGIES
from kgcore.registry import Registry

Schema = dict[str, Any]
MOST = 2**63 - 1  # of whole numbers: that of the libraries
SHARES = "it needs at least one share, and every share must be above 0"
SIDES = ("subject", "object", "both", "bernoulli")
ADVANCED = "advanced"  # the group of settings that few people change
AUTO = "auto"  # as many corruptions as the base rate needs

TRAINING_ONLY = frozenset({"kbgan"})  # strategies that learn during training, and can draw only there
MODEL_ONLY = frozenset({"near_miss", "nearest"})  # strategies that draw with a trained model

ALL, GAIN = "all", "gain"
OBJECTIVES: dict[str, Literal["minimize", "maximize"]] = {
    "brier": "minimize",
    "log_loss": "minimize",
    "accuracy": "maximize",
    "mrr": "maximize",
    GAIN: "maximize",
}
MISSING_FACTS = "missing_facts"
POPULATIONS = ("negatives", "answers", MISSING_FACTS)  # that a model is judged on: see kgcore/wings/tuning/objective.py
SEARCHED = ("learning_rate", "regulariser", "epochs", "training_strategy", "training_sides", "k", "training_eta")
SEARCHABLE = (*SEARCHED, "dropout", "initial_scale", "inverse_relations", "cohort_weight")
INITIALISERS = ("uniform", "glorot")
PER = ("all", "subject", "object")  # what the number of best pairs is counted over
EXAM_SHARE = 0.5  # share of labels of new triples that belong to the exam
HELD_OUT = ("valid", "test")  # splits that can be used as candidates, with their labels hidden
FEWEST_EPOCHS = 4  # fewest epochs of a trial, because a search measures a trial three times before its end

# The settings that a preset may decide. All other settings come from the user or have their defaults.
_BY_PRESET = (
    "model model_options loss loss_options k training_eta training_strategy training_sides training_filtered "
    "sides_apart inverse_relations epochs batch_size chunk_size learning_rate learning_rate_end lp_weight lp_power "
    "dropout initialiser initial_scale cohort_weight cohort_size cohort_temperature calibration_eta "
    "calibration_strategy calibration_sides calibration_filtered calibrators combine_rounds"
)
BY_PRESET = frozenset(_BY_PRESET.split())
# strategies that draw without learning in training; and those that need no trained model either
_LEARNS = dict.fromkeys(TRAINING_ONLY, "this strategy learns during training, and can be used only there")
_NEEDS_MODEL = dict.fromkeys(MODEL_ONLY, "this strategy draws with a trained model, but no model is trained yet")
RANDOM, TIME, COLD, GROUP = "random", "time", "cold", "group"
LIMITS = {"ge": "at least", "gt": "above", "lt": "below", "le": "at most"}


@dataclass(frozen=True)
class Choices:
    """The names that a setting allows: as text, as entries of a tuple, or as the keys of a mapping to shares.

    source   the names, or the registry of the components
    reasons  why other names are not allowed, in words that follow a name
    """

    source: tuple[str, ...] | Registry[Any]
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The allowed names."""
        return self.source.names() if isinstance(self.source, Registry) else list(self.source)

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value of the setting `name` is not allowed."""
        if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
            given = ", ".join(value) or "empty"
            raise InputError(f"{name} is {given}: it needs at least one entry and no entry twice")
        for entry in (value,) if isinstance(value, str) else value:
            if entry in self.reasons:
                raise InputError(f"{name} is {entry!r}: {self.reasons[entry]}")
            if isinstance(self.source, Registry):
                self.source.check(entry)
            elif entry not in self.source:
                raise InputError(f"{name} is {entry!r}: it must be one of {', '.join(self.source)}")
        if isinstance(value, dict) and not (value and min(value.values()) > 0):
            raise InputError(f"{name} is {value!r}: {SHARES}")

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        schema = handler(core)
        if schema["type"] == "array":
            return schema | {"items": {"type": "string", "enum": self.names}, "minItems": 1, "uniqueItems": True}
        if schema["type"] == "object":
            share = {"type": "number", "exclusiveMinimum": 0}
            return schema | {"propertyNames": {"enum": self.names}, "minProperties": 1, "additionalProperties": share}
        return schema | {"enum": self.names}


@dataclass(frozen=True)
class Options:
    """Marks a mapping of option names to values: the options of a component of the registry, such as a loss."""

    registry: Registry[Any]


@dataclass(frozen=True)
class Metavar:
    """Marks a number that the command line also takes in another form, such as `LOW:HIGH`."""

    text: str


@dataclass(frozen=True)
class Spelling:
    """How the value of a setting is spelt.

    text     the allowed values, for people
    pattern  regular expression of the allowed values
    """

    text: str
    pattern: str

    def check(self, name: str, value: str) -> None:
        """Raise InputError if the value of the setting `name` is not allowed."""
        if not re.fullmatch(self.pattern, value):
            raise InputError(f"{name} is {value!r}: it must be {self.text}")

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return handler(core) | {"pattern": self.pattern}


SIDES_SPELLING = Spelling(
    f"one of {', '.join(SIDES)}, or object=SHARE with a share from 0 to 1",
    r"^(subject|object|both|bernoulli|object=(0?\.[0-9]+|0|1))$",
)
COLUMNS_SPELLING = Spelling(
    "auto, or three or four names, or positions from 1, separated by commas", r"^(auto|[^,]+,[^,]+,[^,]+(,[^,]+)?)$"
)
ETA_SPELLING = Spelling("auto or a whole number above 0", r"^(auto|[1-9][0-9]*)$")
RANKED_SPELLING = Spelling("auto or a whole number", r"^(auto|[0-9]{1,9})$")


DRAWN = Choices(STRATEGIES.without(TRAINING_ONLY), _LEARNS)
DRAWN_WITHOUT_MODEL = Choices(STRATEGIES.without(TRAINING_ONLY | MODEL_ONLY), _LEARNS | _NEEDS_MODEL)


def object_share(sides: str) -> float | None:
    """Return the share of corruptions that replace the object.

    The result is None for `bernoulli`, because each predicate then has its own share.

    sides  subject (0), object (1), both (1/2), bernoulli, or object=SHARE with a share in [0, 1]

    Raises InputError if `sides` has another value.
    """
    SIDES_SPELLING.check("sides", sides)
    name, _, share = sides.partition("=")
    if share:
        return float(share)
    return {"subject": 0.0, "object": 1.0, "both": 0.5}.get(name)


SPLIT_SPELLING = Spelling(
    "random, time:COLUMN, cold:subject or cold:object (of one predicate: cold:object:PREDICATE), or group:COLUMN",
    r"^(random|(time|group):.+|cold:(subject|object)(:.+)?)$",
)


@dataclass(frozen=True)
class SplitRule:
    """What the facts of valid and test have in common.

    kind       random: nothing. time: they are the newest. cold: an entity that has no fact of the predicate in train.
               group: the value of a column, which no fact of train has
    column     the column of times or groups: its name or its position from 1; empty for the other kinds
    side       subject or object: the side of the cold entity; empty for the other kinds
    predicate  the predicate of the cold entities; empty: every predicate
    """

    kind: str = RANDOM
    column: str = ""
    side: str = ""
    predicate: str = ""

    @classmethod
    def of(cls, text: str) -> "SplitRule":
        """Read the setting, such as `cold:object:treats`. Raises InputError if it is misspelt."""
        SPLIT_SPELLING.check("split", text)
        kind, _, rest = text.partition(":")
        if kind != COLD:
            return cls(kind, column=rest.strip())
        side, _, predicate = rest.partition(":")
        return cls(kind, side=side, predicate=predicate)

    @property
    def other_side(self) -> str:
        """The side whose entities are not cold, subject or object; empty if no entity is cold."""
        return {"subject": "object", "object": "subject"}.get(self.side, "")

    @property
    def cold_column(self) -> int | None:
        """The column of the cold entities in triples, 0 or 2; None if no entity is cold."""
        return {"subject": 0, "object": 2}.get(self.side)

    def __str__(self) -> str:
        """Return the setting as the user gives it."""
        return ":".join(part for part in (self.kind, self.column, self.side, self.predicate) if part)


def setting(default: Any, description: str, **limits: Any) -> Any:
    """Return the field of a setting. limits: ge, gt, lt and le, as in pydantic."""
    return Field(default, description=description, **limits)


class Config(BaseModel):
    """The base class of all settings. A setting that is None is not given, and has its default.

    stage  name of the stage that uses the settings; '' for the settings of a job, such as a search
    first  the settings that people change: in forms and in the help, the others are advanced. None: none is advanced

    Raises InputError for a forbidden value. In JSON, only the given settings are written: a default that is written
    would count as given, and a preset could not decide the setting any more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    stage: ClassVar[str] = ""
    first: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, **settings: Any) -> None:
        if isinstance(settings.get(ADVANCED), Mapping):  # of a form
            settings |= settings.pop(ADVANCED)
        given = {name: value for name, value in settings.items() if value is not None}
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise InputError(_sentence(type(self), given, error.errors()[0])) from None

    @field_validator("*")
    @classmethod
    def _allowed(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if isinstance(value, int) and abs(value) > MOST:
            raise InputError(f"{name} is {value}: it must be at most {MOST}")
        for rule in cls.model_fields[name].metadata:
            if isinstance(rule, Choices | Spelling):
                rule.check(name, value)
        return value

    @model_serializer
    def given(self) -> dict[str, Any]:
        """Return name -> value of each given setting. A default counts as given if the user gives it."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    def as_dict(self) -> dict[str, Any]:
        """Return name -> value of every setting."""
        return {name: value.as_dict() if isinstance(value, Config) else value for name, value in vars(self).items()}

    def parameters(self) -> dict[str, object]:
        """Return the settings as MLflow parameters: name -> value."""
        return self.as_dict()

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which count as given. None: not given. Raises InputError as the class."""
        return type(self)(**self.given() | changes)

    def over(self, settings: Self) -> Self:
        """Return a copy of `settings` in which the values that are given here replace the old ones.

        Options of the model or the loss are replaced one by one: an option that is not given keeps its old value.

        Raises InputError if settings contradict each other.
        """
        options = {name: getattr(settings, name) | getattr(self, name) for name in options_of(type(self))}
        given = self.given()
        return settings.replace(**given | {name: value for name, value in options.items() if name in given})

    def added_to(self, other: Self) -> tuple[str, ...]:
        """Return the names of the settings that are given here but not in `other`.

        A setting that holds options is included if one of its options is given here but not in `other`.
        """
        there, options = other.given(), options_of(type(self))
        return tuple(
            name
            for name, value in self.given().items()
            if name not in there or (name in options and value.keys() - there[name].keys())
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        """Return the schema for the forms of Prefect. No setting has a default there: a form would send it.

        A form shows the advanced settings in a group of their own. The schema also takes them outside the group.
        """
        found = handler(core)
        own = handler.resolve_ref_schema(found)
        for name, schema in own["properties"].items():
            schema |= schema.pop("anyOf", [{}])[0]  # without the alternative null
            if (default := schema.pop("default", None)) not in (None, ""):
                instead = "the preset's value in a pipeline, otherwise " if name in BY_PRESET else ""
                schema["description"] += f". If not given: {instead}{value_text(default)}"
            if schema.get("type") == "boolean":  # a form would send the position of a switch that nobody has touched
                del schema["type"]
                schema["enum"] = [True, False, None]
        if advanced := {name: own["properties"].pop(name) for name in cls.advanced()}:
            group = {"title": "change", "type": "object", "properties": advanced, "additionalProperties": False}
            own["properties"][ADVANCED] = {"title": "Advanced", "anyOf": [{"type": "null"}, group], "default": None}
            flat = {name: {"anyOf": [{"type": "null"}, schema]} for name, schema in advanced.items()}
            del own["additionalProperties"]  # it would not see those outside the group
            own |= {"if": True, "then": {"properties": flat}, "unevaluatedProperties": False}
        return found

    @classmethod
    def advanced(cls) -> list[str]:
        """Return the names of the settings that few people change."""
        return [] if cls.first is None else [name for name in cls.model_fields if name not in cls.first]


def divided(given: Mapping[str, Any], *kinds: type[Config]) -> list[Mapping[str, Any]]:
    """Return the settings of each kind. Raises InputError for a setting of none, with the name that is most like it."""
    known = [name for kind in kinds for name in kind.model_fields]
    if unknown := [name for name in given if name not in known]:
        like = get_close_matches(unknown[0], known, 1)
        told = f"did you mean {like[0]}?" if like else f"the known ones are {', '.join(known)}"
        raise InputError(f"unknown setting {unknown[0]!r}: {told}")
    return [{name: value for name, value in given.items() if name in kind.model_fields} for kind in kinds]


def options_of(kind: type[Config]) -> dict[str, Registry[Any]]:
    """Return setting -> registry, for the settings that hold the options of a component."""
    marks = ((name, mark) for name, item in kind.model_fields.items() for mark in item.metadata)
    return {name: mark.registry for name, mark in marks if isinstance(mark, Options)}


def choices_of(item: FieldInfo) -> Choices | None:
    """Return the allowed names of a setting; None: it is no name."""
    return next((rule for rule in item.metadata if isinstance(rule, Choices)), None)


def limits_of(item: FieldInfo) -> str:
    """Return the limits of a number, such as `above 0 and below 1`; '' without limits."""
    limits = ((text, getattr(rule, name, None)) for rule in item.metadata for name, text in LIMITS.items())
    return " and ".join(f"{text} {limit:g}" for text, limit in limits if limit is not None)


def describe(item: FieldInfo) -> str:
    """Return the description of a setting, with its choices or its range."""
    if choices := choices_of(item):
        return f"{item.description}: {', '.join(choices.names)}"
    for spelling in (rule for rule in item.metadata if isinstance(rule, Spelling)):
        return f"{item.description}: {spelling.text}"
    limits = limits_of(item)
    return f"{item.description} ({limits})" if limits else str(item.description)


def value_text(value: object) -> str:
    """Write a value as on the command line: `typed=0.9,uniform=0.1`, `log_odds=true`. An empty mapping is `none`."""
    if isinstance(value, dict):
        return ",".join(f"{name}={_entry_text(entry)}" for name, entry in value.items()) or "none"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "not given" if value is None else str(value)


def _entry_text(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _sentence(kind: type[Config], given: Mapping[str, Any], fault: ErrorDetails) -> str:
    """Return what pydantic says of a value in our words: one sentence."""
    if fault["type"] == "value_error":
        return str(fault["ctx"]["error"])
    name = str(fault["loc"][0])
    if fault["type"] == "extra_forbidden":
        return f"unknown setting {name!r}: the known ones are {', '.join(kind.model_fields)}"
    item = kind.model_fields[name]
    if get_origin(item.annotation) is dict and choices_of(item):
        needs = "it must be a dict, such as {'uniform': 1.0}" if isinstance(given[name], str) else SHARES
        return f"{name} is {given[name]!r}: {needs}"
    wanted = limits_of(item)
    told = f"it must be {wanted}" if wanted else fault["msg"][0].lower() + fault["msg"][1:]
    return f"{name} is {given[name]!r}: {told}"
