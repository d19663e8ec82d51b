"""The pandera schemas of tables of triples. A check reports all faults of a table, each with its line."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaError, SchemaErrors

from kgcore.arrays import Floats
from kgcore.config.base import GROUP, TIME
from kgcore.data.formats.base import COLUMNS, CONFIDENCE, LABEL
from kgcore.data.formats.columns import MEANING
from kgcore.errors import InputError

TIME_MUST_BE = "a number or an ISO date such as 2024-05-17 or 2024-05-17T08:30"
SPELLINGS = sorted({spelling for word in MEANING for spelling in (word, word.upper(), word.title())})
FALSE = {"0", "0.0", "-1", "-1.0"}
FEW_ROWS = 100  # in which each fault is told by itself
MOST_ODD = 0.5  # if a larger share of the labels cannot be read, the column has something else
WHOLE = "no break"  # the name of a check: a name is in one column of one line of the files that kgcal writes


def _is_whole(names: pd.Series) -> Any:
    """Return whether each name has no tab and no line break."""
    return ~names.str.contains(r"[\t\r\n]")


# Three columns of non-empty text without tabs and line breaks. (Of a class DataFrameModel in place of this object,
# pandera would import dask, which takes a second.)
TRIPLES = pa.DataFrameSchema(
    {name: pa.Column(str, [pa.Check.str_length(min_value=1), pa.Check(_is_whole, name=WHOLE)]) for name in COLUMNS},
    strict=True,
)
MUST_BE = {LABEL: "1 or -1, 1 or 0, or true or false", CONFIDENCE: "a number from 0 to 1", TIME: TIME_MUST_BE}


def read_times(texts: Sequence[str]) -> Floats:
    """Return the times (n,) of the texts (n,): all are numbers, or all are dates, which become seconds since 1970.

    A date is a year, a month, a day, or a moment, with or without a time zone (UTC without). A text that is
    neither a number nor a date becomes NaN. Raises InputError if some are only numbers and others are only dates.
    """
    numbers, dates = _numbers(texts), _dates(texts)
    if not np.isnan(numbers).any():
        return numbers
    number, date = (
        np.flatnonzero(~np.isnan(one) & np.isnan(other)) for one, other in ((numbers, dates), (dates, numbers))
    )
    if len(number) and len(date):
        raise InputError(
            f"some times are numbers, such as {texts[number[0]]}, and others are dates, such as {texts[date[0]]}: all "
            "must be of one kind"
        )
    return numbers if len(number) else dates


def _numbers(texts: Sequence[str]) -> Floats:
    values = pd.to_numeric(pd.Series(texts, dtype="str"), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _dates(texts: Sequence[str]) -> Floats:
    dates = pd.to_datetime(pd.Series(texts, dtype="str"), format="ISO8601", utc=True, errors="coerce")
    moments = dates.dt.tz_localize(None).to_numpy("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)


def _in_unit_interval(values: pd.Series) -> Any:
    """Return whether each value is a number from 0 to 1."""
    return pd.to_numeric(values, errors="coerce").between(0, 1)


def _is_time(values: pd.Series) -> Any:
    """Return whether each value is a number or a date."""
    texts = values.tolist()
    return pd.Series(~np.isnan(_numbers(texts)) | ~np.isnan(_dates(texts)), values.index)


# What the further columns must have. A label is 1 or true for true; -1, 0 or false for false
FURTHER = {
    LABEL: pa.Column(str, pa.Check.isin(SPELLINGS)),
    CONFIDENCE: pa.Column(str, pa.Check(_in_unit_interval, name=CONFIDENCE)),
    TIME: pa.Column(str, pa.Check(_is_time, name=TIME)),
    GROUP: pa.Column(str, pa.Check.str_length(min_value=1)),
}


def validate(frame: pd.DataFrame, path: Path, unit: str = "line") -> list[str]:
    """Return the faults of a table, each as 'PATH, line N: ...'.

    frame  columns subject, predicate, object and, if there are any, label, confidence, time or group. The index is the
           number of the line
    unit   what the index counts: line, row or triple
    """
    blank = (frame[list(COLUMNS)] == "").all(axis=1)
    faults = [f"{path}, {unit} {n}: subject is empty, as predicate and object: delete it" for n in frame.index[blank]]
    if LABEL in frame and len({float(word) for word in {*frame[LABEL]} & FALSE}) > 1:
        faults.append(
            f"{path} has the labels 0 and -1, and each means false: if one of them means unknown, delete its {unit}s; "
            "otherwise write 0 for both"
        )
    odd = _odd_labels(frame[~blank])
    faults += [f"{path}: {said}" for said in _of_all_rows(frame[~blank], odd)]
    if odd:  # one fault names the whole column, so no row has a fault of its own
        frame = frame.drop(columns=LABEL)
    schema = TRIPLES.add_columns({name: column for name, column in FURTHER.items() if name in frame})
    try:
        schema.validate(frame[~blank] if blank.any() else frame, lazy=True)
    except (SchemaError, SchemaErrors) as error:
        return faults + [_sentence(path, unit, case) for case in error.failure_cases.to_dict("records")]
    return faults


def _of_all_rows(frame: pd.DataFrame, odd: int) -> list[str]:
    """Return what to do if no row has a predicate, or if `odd` labels, most of all, cannot be read."""
    said: list[str] = []
    if len(frame) <= FEW_ROWS:
        return said
    if (frame["predicate"] == "").all():
        said.append(
            f"all {len(frame):,} predicates are empty. If the facts are of one kind, write the same word in every row; "
            "if another column has the predicates, name it by --columns"
        )
    if odd:
        some = f"only {len(frame) - odd:,} of {len(frame):,} labels can be read"
        which = some if odd < len(frame) else f"none of {len(frame):,} labels is one"
        said.append(
            f"{which}: leave them out by --columns {','.join(COLUMNS)} (1,2,3 without a "
            "header) only if they do not say what is true: otherwise write 1 and -1. If they are confidences, add "
            "--confidence COLUMN, and if they are times, --split time:COLUMN"
        )
    return said


def _odd_labels(frame: pd.DataFrame) -> int:
    """Return how many labels cannot be read; 0 if they are at most MOST_ODD of all, or the table is short."""
    odd = int((~frame[LABEL].isin(SPELLINGS)).sum()) if LABEL in frame and len(frame) > FEW_ROWS else 0
    return odd if odd > MOST_ODD * len(frame) else 0


def _sentence(path: Path, unit: str, case: Mapping[Hashable, Any]) -> str:
    """Return a fault that pandera found as a sentence for the user."""
    where = f"{path}, {unit} {int(case['index'])}" if pd.notna(case["index"]) else f"{path}"
    if (must_be := MUST_BE.get(case["column"])) is not None:
        state = f"is {case['failure_case']!r}" if str(case["failure_case"]).strip() else "is missing"
        return f"{where}: {case['column']} {state}: it must be {must_be}"
    if "str_length" in str(case["check"]):
        return f"{where}: {case['column']} is empty"
    if case["check"] == WHOLE:
        return f"{where}: {case['column']} is {case['failure_case']!r}: a name must have no tab and no line break"
    return f"{where}: {case['column']} fails {case['check']} ({case['failure_case']!r})"
