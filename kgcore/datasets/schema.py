"""The pandera schemas of tables of triples. A check reports all faults of a table, each with its line."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaError, SchemaErrors
from pandera.typing import Series


class TriplesSchema(pa.DataFrameModel):
    """The schema of triples: three columns of non-empty text."""

    subject: Series[str] = pa.Field(str_length={"min_value": 1})
    predicate: Series[str] = pa.Field(str_length={"min_value": 1})
    object: Series[str] = pa.Field(str_length={"min_value": 1})

    class Config:
        strict = True


class LabelledSchema(TriplesSchema):
    """The schema of triples with a label, 1 = true or -1 = false, as in WN11 and FB13."""

    label: Series[str] = pa.Field(isin=["1", "-1"])


def validate(frame: pd.DataFrame, labelled: bool, path: Path) -> list[str]:
    """Return the faults of a table, each as 'PATH, line N: ...'. The index of the table is the line number."""
    schema = LabelledSchema if labelled else TriplesSchema
    try:
        schema.validate(frame, lazy=True)
    except (SchemaError, SchemaErrors) as error:
        return [_sentence(path, case) for case in error.failure_cases.to_dict("records")]
    return []


def _sentence(path: Path, case: Mapping[Hashable, Any]) -> str:
    """Return a fault that pandera found as a sentence for the user."""
    where = f"{path}, line {int(case['index'])}" if pd.notna(case["index"]) else f"{path}"
    if case["column"] == "label":
        return f"{where}: label is {case['failure_case']!r}: it must be 1 or -1"
    if "str_length" in str(case["check"]):
        return f"{where}: {case['column']} is empty"
    return f"{where}: {case['column']} fails {case['check']} ({case['failure_case']!r})"
