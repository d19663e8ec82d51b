"""Indented JSON files, and the version number of all artifact formats."""

import json
from pathlib import Path
from typing import Any

FORMAT = 3  # version of all artifact formats, part of every cache key; increase it when a format changes


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
