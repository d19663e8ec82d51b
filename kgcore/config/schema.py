"""Add the accepted values of a setting to its JSON schema. Prefect makes forms from the schema."""

from typing import Any

from kgcore.registry import Registry


def enumerate_choices(choices: tuple[str, ...] | Registry[Any], schema: dict[str, Any]) -> None:
    """Add the choices to the JSON schema of a setting: for its value, its entries, or the names of its shares."""
    names, value = names_of(choices), _value_schema(schema)
    if value["type"] == "array":
        value |= {"items": {"type": "string", "enum": names}, "minItems": 1, "uniqueItems": True}
    elif value["type"] == "object":
        value |= {"propertyNames": {"enum": names}, "minProperties": 1}
        value |= {"additionalProperties": {"type": "number", "exclusiveMinimum": 0}}
    else:
        value["enum"] = names


def require_pattern(pattern: str, schema: dict[str, Any]) -> None:
    """Add a regular expression to the JSON schema of a setting."""
    _value_schema(schema)["pattern"] = pattern


def _value_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the value without null. If null is allowed, it is the branch of `anyOf` that is not null."""
    branches: list[dict[str, Any]] = schema.get("anyOf", [schema])
    [value] = [branch for branch in branches if branch["type"] != "null"]
    return value


def names_of(choices: tuple[str, ...] | Registry[Any]) -> list[str]:
    """The allowed names."""
    return choices.names() if isinstance(choices, Registry) else list(choices)
