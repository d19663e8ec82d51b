"""Triples and graphs that a user of Python brings: tables of pandas, arrays, rows, and dictionaries of tables."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import infer_dtype

from kgcore.data.formats.base import COLUMNS
from kgcore.errors import InputError, first_line

Frames = pd.DataFrame | Mapping[str, pd.DataFrame]
Rows = np.ndarray[Any, Any] | Sequence[Sequence[str]]


def frame_of(candidates: pd.DataFrame | Iterable[Sequence[str]]) -> pd.DataFrame:
    """Return candidates as a frame. Raises InputError for a row that has not three parts, and for a set."""
    if isinstance(candidates, pd.DataFrame):
        return candidates
    if isinstance(candidates, np.ndarray) and candidates.dtype.names:
        return pd.DataFrame(candidates)
    if isinstance(candidates, str | set | frozenset) or not isinstance(candidates, Iterable):
        raise InputError("the candidates must be a frame, or triples in an order, such as a list")
    for number, row in enumerate(rows := list[object](candidates)):
        if isinstance(row, str) or not isinstance(row, Sized) or len(row) != len(COLUMNS):
            raise InputError(f"candidate {number} is {row!r}: it must be a subject, a predicate and an object")
    names = getattr(rows[0], "_fields", ()) if rows else ()  # of named tuples
    return pd.DataFrame(rows, columns=list(names if {*names} == {*COLUMNS} else COLUMNS))


def names_of(frame: pd.DataFrame) -> pa.Table:
    """Return the columns subject, predicate and object of a frame (n rows) as a table of strings.

    Raises InputError if a column is missing or occurs twice, or if a value is missing or not text.
    """
    found = list(frame.columns)
    if missing := [name for name in COLUMNS if name not in found]:
        raise InputError(f"the candidates have no column {', '.join(missing)}: they must have {', '.join(COLUMNS)}")
    if twice := [name for name in COLUMNS if found.count(name) > 1]:
        raise InputError(f"the candidates have the column {', '.join(twice)} twice: give every column its own name")
    return pa.table({name: _text(name, frame[name]) for name in COLUMNS})


def _text(name: str, column: pd.Series) -> pa.Array:
    try:
        array = pa.array(column, from_pandas=True)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if len(array) == 0 or (not array.null_count and _is_text(array.type)):
            return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        pass  # the message below names the row
    row, value = next((i, value) for i, value in enumerate(column.to_numpy(dtype=object)) if not _is_name(value))
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and np.isnan(value)):
        raise InputError(f"row {row + 1:,} has no {name}: every triple needs a subject, a predicate and an object")
    raise InputError(f"row {row + 1:,} has the {name} {value!r} ({type(value).__name__}): names must be UTF-8 text")


def _is_name(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # a surrogate without its pair
        return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def table_of(triples: np.ndarray[Any, Any] | Sequence[Sequence[str]]) -> pd.DataFrame:
    """Return n triples as a table (n, 3). Raises InputError for rows of another width."""
    try:
        return pd.DataFrame(triples, columns=COLUMNS)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the table train must have three columns, {', '.join(COLUMNS)}: {first_line(error)}"
        ) from error


def written(tables: Frames, folder: Path) -> Path:
    """Write tables to files that are read as a user's own. Return their folder."""
    folder.mkdir()
    for split, table in {"train": tables}.items() if isinstance(tables, pd.DataFrame) else tables.items():
        if not re.fullmatch(r"[A-Za-z]\w{0,63}", str(split)):
            raise InputError(f"a table has the name {split!r}: the names are train, and perhaps valid and test")
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"the table {split} is of the type {type(table).__name__}: it must be a table of pandas")
        try:
            table.apply(_mixed_as_text).to_parquet(folder / f"{split}.parquet", index=False)
        except (TypeError, ValueError, ArithmeticError, NotImplementedError) as error:  # those of pyarrow
            raise InputError(f"the table {split} has a column that is no text: {first_line(error)}") from error
    return folder


@contextmanager
def tables_named(folder: Path) -> Iterator[None]:
    """Name a table in place of its file in the folder, in an InputError."""
    try:
        yield
    except InputError as error:
        raise InputError(re.sub(rf"{re.escape(str(folder))}/(\w+)\.parquet", r"the table \1", str(error))) from error


def _mixed_as_text(column: pd.Series) -> pd.Series:
    """Return a column of pandas that has text and numbers as text, as a file has it; any other column as it is.

    A whole number has no fraction: pandas reads a column block by block, and one with a missing number as floats.
    """
    values = column.astype(object) if column.dtype == "category" else column
    if infer_dtype(values) not in ("mixed", "mixed-integer"):
        return column
    return values.map(_number_as_text, na_action="ignore")


def _number_as_text(value: object) -> object:
    if not isinstance(value, Number | np.generic):
        return value
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 2**53:
        return f"{value:.0f}"
    return str(value)
