"""The pandera schemas of tables of triples. A check reports all faults of a table, each with its line."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaError, SchemaErrors
from pandera.typing import Series

from kgcore.datasets.formats.base import CONFIDENCE, LABEL
from kgcore.datasets.formats.columns import MEANING

SPELLINGS = sorted({spelling for word in MEANING for spelling in (word, word.upper(), word.title())})
BREAKS = r"[^\t\r\n]*"  # a name is in one column of one line of the files that kgcal writes


class TriplesSchema(pa.DataFrameModel):
    """The schema of triples: three columns of non-empty text without tabs and line breaks."""

    subject: Series[str] = pa.Field(str_length={"min_value": 1}, str_matches=f"{BREAKS}$")
    predicate: Series[str] = pa.Field(str_length={"min_value": 1}, str_matches=f"{BREAKS}$")
    object: Series[str] = pa.Field(str_length={"min_value": 1}, str_matches=f"{BREAKS}$")

    class Config:
        strict = True


class LabelledSchema(TriplesSchema):
    """The schema of triples with a label: 1 or true for true; -1, 0 or false for false."""

    label: Series[str] = pa.Field(isin=SPELLINGS)


class ConfidenceSchema(TriplesSchema):
    """The schema of triples with a confidence: a number from 0 to 1."""

    confidence: Series[str]

    @pa.check("confidence", name="confidence")
    def in_unit_interval(cls, values: pd.Series) -> pd.Series:  # noqa: N805 (pandera makes it a class method)
        """Return whether each value is a number from 0 to 1."""
        return pd.to_numeric(values, errors="coerce").between(0, 1)


def validate(frame: pd.DataFrame, path: Path, unit: str = "line") -> list[str]:
    """Return the faults of a table, each as 'PATH, line N: ...'.

    frame  columns subject, predicate, object and, if there are any, label or confidence. The index is the number of the
           line
    unit   what the index counts: line, row or triple
    """
    schema = LabelledSchema if LABEL in frame else ConfidenceSchema if CONFIDENCE in frame else TriplesSchema
    try:
        schema.validate(frame, lazy=True)
    except (SchemaError, SchemaErrors) as error:
        return [_sentence(path, unit, case) for case in error.failure_cases.to_dict("records")]
    return []


def _sentence(path: Path, unit: str, case: Mapping[Hashable, Any]) -> str:
    """Return a fault that pandera found as a sentence for the user."""
    where = f"{path}, {unit} {int(case['index'])}" if pd.notna(case["index"]) else f"{path}"
    if case["column"] == "label":
        return f"{where}: label is {case['failure_case']!r}: it must be 1 or -1, 1 or 0, or true or false"
    if case["column"] == "confidence":
        found = f"is {case['failure_case']!r}" if str(case["failure_case"]).strip() else "is missing"
        return f"{where}: confidence {found}: it must be a number from 0 to 1"
    if "str_length" in str(case["check"]):
        return f"{where}: {case['column']} is empty"
    if "str_matches" in str(case["check"]):
        return f"{where}: {case['column']} is {case['failure_case']!r}: a name must have no tab and no line break"
    return f"{where}: {case['column']} fails {case['check']} ({case['failure_case']!r})"
