"""The base class of all settings: pydantic models, whose fields have a description and allowed values.

The command line, the Prefect forms, MLproject and the cache keys come from these fields.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self, get_origin

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

from kgcore.config.choices import BY_PRESET, SHARES, Choices, Options, Schema, Spelling
from kgcore.errors import InputError
from kgcore.registry import Registry

LIMITS = {"ge": "at least", "gt": "above", "lt": "below", "le": "at most"}


def setting(default: Any, description: str, **limits: Any) -> Any:
    """Return the field of a setting. limits: ge, gt, lt and le, as in pydantic."""
    return Field(default, description=description, **limits)


class Config(BaseModel):
    """The base class of all settings. A setting that is None is not given, and has its default.

    stage  name of the stage that uses the settings; '' for the settings of a job, such as a search

    Raises InputError for a forbidden value. In JSON, only the given settings are written: a default that is written
    would count as given, and a preset could not decide the setting any more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    stage: ClassVar[str] = ""

    def __init__(self, **settings: Any) -> None:
        given = {name: value for name, value in settings.items() if value is not None}
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise InputError(_sentence(type(self), given, error.errors()[0])) from None

    @field_validator("*")
    @classmethod
    def _allowed(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
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
        """Return the schema for the forms of Prefect. No setting has a default there: a form would send it."""
        found = handler(core)
        for name, schema in handler.resolve_ref_schema(found)["properties"].items():
            schema |= schema.pop("anyOf", [{}])[0]  # without the alternative null
            if (default := schema.pop("default", None)) is not None:
                instead = "the preset's value in a pipeline, otherwise " if name in BY_PRESET else ""
                schema["description"] += f". If not given: {instead}{value_text(default)}"
        return found


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
        return f"{name} is {given[name]!r}: {SHARES}"
    wanted = limits_of(item)
    told = f"it must be {wanted}" if wanted else fault["msg"][0].lower() + fault["msg"][1:]
    return f"{name} is {given[name]!r}: {told}"
