"""The trials of a search as a CSV table, which spreadsheets can open."""

import json
from pathlib import Path
from typing import Any

import pandas as pd


def write_trials(path: Path, table: pd.DataFrame) -> None:
    """Write a row for each trial. A mapping, such as the shares of strategies, becomes JSON text in its cell."""
    table.map(lambda value: json.dumps(value) if isinstance(value, dict) else value).to_csv(path, index=False)


def read_trials(path: Path) -> pd.DataFrame:
    """Read the output of `write_trials`."""
    table = pd.read_csv(path, dtype={"reason": str}).fillna({"reason": ""})
    for name in table.columns:
        if table[name].map(_is_mapping).any():
            table[name] = table[name].astype(object).map(_mapping)
    return table


def _is_mapping(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("{")


def _mapping(value: Any) -> Any:
    """Convert the JSON text of a mapping to the mapping. Return any other value unchanged."""
    return json.loads(value) if _is_mapping(value) else value
