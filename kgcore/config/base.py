"""The base class of all settings, whose fields have a description and allowed values.

The command line, the Prefect forms, MLproject and the cache keys are generated from these fields.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

from kgcore.config.choices import Spelling
from kgcore.config.schema import enumerate_choices, names_of, require_pattern, value_without_null
from kgcore.errors import InputError
from kgcore.registry import Registry

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
    options_of: Registry[Any] | None = None,
    spelling: Spelling | None = None,
    check: Callable[[str, Any], None] | None = None,
    ends: tuple[str, str] | None = None,
) -> Any:
    """Make a dataclass field for a setting, with its description and its allowed values.

    ge, gt, lt, le  limits of a number: at least, above, below, at most
    choices         allowed names. A setting that can hold several names is a tuple, or a mapping of names to shares
    options_of      registry of the components, such as the losses, whose options the setting holds. Such a setting is a
                    mapping of option names to values
    default         None: the setting is a quantity that nobody has to give; None is then allowed, whatever the limits
    spelling        how a text is spelt
    ends            names of the settings that hold the ends of an interval of this number. On the command line, the
                    option can then be LOW:HIGH
    check           function that takes the setting's name and value, and raises InputError if the value is not allowed

    The keys of the metadata are those of pydantic. Prefect reads them to make the form of a deployment and to check
    the input.
    """
    limits = {"ge": ge, "gt": gt, "lt": lt, "le": le}
    metadata: dict[str, object] = {name: limit for name, limit in limits.items() if limit is not None}
    metadata["description"] = description
    if default is None:
        metadata["json_schema_extra"] = value_without_null
    if choices is not None:
        metadata |= {"choices": choices, "json_schema_extra": partial(enumerate_choices, choices)}
    if options_of is not None:
        metadata["options_of"] = options_of
    if spelling is not None:
        metadata |= {"spelling": spelling, "json_schema_extra": partial(require_pattern, spelling.pattern)}
        check = spelling.check
    if ends is not None:
        metadata["ends"] = ends
    if check is not None:
        metadata["check"] = check
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The base class of all settings. It checks every field on creation, and raises InputError for a forbidden value.

    stage  name of the stage that uses the settings; '' for the settings of a job, such as a search
    """

    stage: ClassVar[str] = ""
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # misspelt settings are refused

    def __post_init__(self) -> None:
        for item in fields(self):
            check_setting(item, getattr(self, item.name))

    def parameters(self) -> dict[str, object]:
        """Return the settings as MLflow parameters: name -> value."""
        return asdict(self)


def check_setting(item: "Field[Any]", value: Any) -> None:
    """Raise InputError if the choices, the range or the check of the setting do not allow the value."""
    if value is None and default_of(item) is None:
        return
    if (check := item.metadata.get("check")) is not None:
        check(item.name, value)
    if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
        found = ", ".join(value) or "empty"
        raise InputError(f"{item.name} is {found}: it needs at least one entry and no entry twice")
    choices = item.metadata.get("choices")
    for entry in value if isinstance(value, tuple | dict) else (value,):
        if isinstance(choices, Registry):
            choices.check(entry)
        elif choices is not None and entry not in choices:
            raise InputError(f"{item.name} is {entry!r}: it must be one of {', '.join(choices)}")
    if isinstance(value, dict) and choices is not None:
        _check_shares(item.name, value)
    _check_range(item, value)


def default_of(item: "Field[Any]") -> Any:
    """Return the default of a setting."""
    return item.default if item.default_factory is MISSING else item.default_factory()


def default_text(item: "Field[Any]") -> str:
    """Write the default of a setting as on the command line: `typed=0.9,uniform=0.1`, `platt,isotonic`, `true`."""
    return value_text(default_of(item))


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


def describe(item: "Field[Any]") -> str:
    """Return the description of a setting, with its choices or its range."""
    text, choices = str(item.metadata["description"]), item.metadata.get("choices")
    if choices is not None:
        return f"{text}: {', '.join(names_of(choices))}"
    if (spelling := item.metadata.get("spelling")) is not None:
        return f"{text}: {spelling.text}"
    limits = _range(item)
    return f"{text} ({limits})" if limits else text


def _limits(item: "Field[Any]") -> dict[str, float]:
    return {name: item.metadata[name] for name in LIMITS if name in item.metadata}


def _range(item: "Field[Any]") -> str:
    return " and ".join(f"{LIMITS[name][0]} {limit:g}" for name, limit in _limits(item).items())


def _check_shares(name: str, shares: dict[str, float]) -> None:
    if not shares or any(not (math.isfinite(share) and share > 0) for share in shares.values()):
        raise InputError(f"{name} is {shares!r}: it needs at least one share, and every share must be above 0")


def _check_range(item: "Field[Any]", value: Any) -> None:
    limits = _limits(item)
    if limits and not (math.isfinite(value) and all(LIMITS[name][1](value, limit) for name, limit in limits.items())):
        raise InputError(f"{item.name} is {value!r}: it must be {_range(item)}")
