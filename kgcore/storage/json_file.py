"""JSON files that people can read, and the version of all formats."""

import json
from pathlib import Path
from typing import Any

FORMAT = 1  # increase it when a format changes: it is part of every cache key


def write_json(path: Path, value: Any) -> None:
    """Write JSON that people can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
