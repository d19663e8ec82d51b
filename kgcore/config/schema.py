"""Functions that add the allowed values of a setting to its JSON schema, from which Prefect makes forms."""

from typing import Any

from kgcore.registry import Registry


def enumerate_choices(choices: tuple[str, ...] | Registry[Any], schema: dict[str, Any]) -> None:
    """Add the allowed names to the JSON schema of a setting.

    They apply to the value if it is a string, to its entries if it is an array, and to its keys if it is an object.
    """
    names, value = names_of(choices), _value_schema(schema)
    if value["type"] == "array":
        value |= {"items": {"type": "string", "enum": names}, "minItems": 1, "uniqueItems": True}
    elif value["type"] == "object":
        value |= {"propertyNames": {"enum": names}, "minProperties": 1}
        value |= {"additionalProperties": {"type": "number", "exclusiveMinimum": 0}}
    else:
        value["enum"] = names


def require_pattern(pattern: str, schema: dict[str, Any]) -> None:
    """Add a regular expression, which the value must match, to the JSON schema of a setting."""
    _value_schema(schema)["pattern"] = pattern


def value_without_null(schema: dict[str, Any]) -> None:
    """Replace the JSON schema of a value or null by that of the value. A form then leaves the setting out if empty."""
    value = _value_schema(schema)
    for name in ("anyOf", "default"):
        schema.pop(name, None)
    schema |= value


def _value_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that is not null. If null is allowed, this is the other branch of `anyOf`."""
    branches: list[dict[str, Any]] = schema.get("anyOf", [schema])
    [value] = [branch for branch in branches if branch["type"] != "null"]
    return value


def names_of(choices: tuple[str, ...] | Registry[Any]) -> list[str]:
    """Return the allowed names as a list."""
    return choices.names() if isinstance(choices, Registry) else list(choices)
