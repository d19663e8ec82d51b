"""The settings that a form shows."""

from typing import Any

from kgcore.config.base import ADVANCED


def shown(kind: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of each setting in the schema of a class, those in its group of advanced ones included."""
    properties: dict[str, Any] = dict(kind["properties"])
    group = properties.pop(ADVANCED, None)
    return properties | (group["anyOf"][1]["properties"] if group else {})
