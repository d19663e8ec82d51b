"""What a table of triples must be, checked with pandera; every fault is told at once, with its line."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaError, SchemaErrors
from pandera.typing import Series


class TriplesSchema(pa.DataFrameModel):
    """Three columns of non-empty text."""

    subject: Series[str] = pa.Field(str_length={"min_value": 1})
    predicate: Series[str] = pa.Field(str_length={"min_value": 1})
    object: Series[str] = pa.Field(str_length={"min_value": 1})

    class Config:
        strict = True


class LabelledSchema(TriplesSchema):
    """With a label, 1 = true and -1 = false, as WN11 and FB13 have."""

    label: Series[str] = pa.Field(isin=["1", "-1"])


def validate(frame: pd.DataFrame, labelled: bool, path: Path) -> list[str]:
    """The table's faults, each as 'PATH, line N: ...'; none when it is well. The table's index is the line."""
    schema = LabelledSchema if labelled else TriplesSchema
    try:
        schema.validate(frame, lazy=True)
    except (SchemaError, SchemaErrors) as error:
        return [_sentence(path, case) for case in error.failure_cases.to_dict("records")]
    return []


def _sentence(path: Path, case: dict[Hashable, Any]) -> str:
    where = f"{path}, line {int(case['index'])}" if pd.notna(case["index"]) else f"{path}"
    if case["column"] == "label":
        return f"{where}: label is {case['failure_case']!r}, it must be 1 or -1"
    if "str_length" in str(case["check"]):
        return f"{where}: {case['column']} is empty"
    return f"{where}: {case['column']} fails {case['check']} ({case['failure_case']!r})"
