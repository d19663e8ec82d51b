"""Readers of files of triples, with tab-separated names or with ids. The text of a fault has its file and line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from kgcore.errors import InputError, raise_faults

COLUMNS = ("subject", "predicate", "object")


def read_triples(path: Path, labelled: bool) -> tuple[pd.DataFrame, list[str]]:
    """Read a file as a table of strings. Return the table and the faults of the file.

    The columns are subject, predicate, object and, if `labelled`, label. The index is the line number, from 1. A line
    with a wrong number of columns is a fault, and is not in the table.

    Raises InputError if the file is missing, empty or not UTF-8.
    """
    names = [*COLUMNS, "label"] if labelled else list(COLUMNS)
    data = _read_text(path, f"it must have {len(names)} tab-separated columns").encode()
    try:
        table, refused = parse_columns(data, names, "\t")
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as tab-separated text: {error}") from error
    lines = np.setdiff1d(np.arange(1, len(table) + len(refused) + 1), [row.number for row in refused])
    faults = [
        f"{path}, line {row.number}: {row.actual_columns} tab-separated columns: it must have {row.expected_columns}"
        for row in refused
    ]
    return table.to_pandas().set_index(lines), faults


def parse_columns(data: bytes, names: Sequence[str], delimiter: str) -> tuple[pa.Table, list[pa.csv.InvalidRow]]:
    """Parse UTF-8 text as columns of strings. Return the table, and the rows with a wrong number of columns.

    delimiter  a comma: quotes may enclose a value; another delimiter: quotes are ordinary characters

    The number of a wrong row is its line in the text, from 1, because the text is parsed as a single block. Raises
    pyarrow.ArrowInvalid if the text cannot be parsed.
    """
    refused: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        refused.append(row)
        return "skip"

    table = pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        parse_options=pa.csv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if delimiter == "," else False,
            ignore_empty_lines=False,
            invalid_row_handler=skip,
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, refused


@dataclass(frozen=True)
class Vocabulary:
    """The names of a data set's ids. `names` maps each id, as text from the file, to its name."""

    path: Path
    names: dict[str, str]


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the names and ids of a file. The first line is a count, and every other line is name, tab, id.

    Raises InputError, with file and line, if the count is wrong, if a line has a wrong number of columns, or if an id
    or a name is empty or occurs twice.
    """
    rows, faults = _read_counted(path, ("name", "id"), "\t")
    names: dict[str, str] = {}
    seen: set[str] = set()
    for line, (name, number) in rows:
        for word, value, known in (("name", name, seen), ("id", number, names)):
            if not value:
                faults.append(f"{path}, line {line}: the {word} is empty")
            elif value in known:
                faults.append(f"{path}, line {line}: the {word} {value} occurs twice")
        names[number] = name
        seen.add(name)
    raise_faults(faults)
    return Vocabulary(path, names)


def read_numbered(path: Path, entities: Vocabulary, predicates: Vocabulary) -> tuple[pd.DataFrame, list[str]]:
    """Read a file of triples of ids. Return a table of their names and the faults, as `read_triples` does.

    The first line is a count, and every other line is subject, object, predicate, separated by white space (the layout
    of OpenKE and TransC). A line with an unknown id is a fault, and is not in the table.

    Raises InputError if the file is missing, empty or not UTF-8.
    """
    rows, faults = _read_counted(path, ("subject", "object", "predicate"), None)
    lines, triples = [], []
    for line, (s, o, p) in rows:
        unknown = [
            f"{path}, line {line}: {word} {number} is not in {vocabulary.path.name}"
            for word, number, vocabulary in (
                ("subject", s, entities),
                ("object", o, entities),
                ("predicate", p, predicates),
            )
            if number not in vocabulary.names
        ]
        faults += unknown
        if not unknown:
            lines.append(line)
            triples.append((entities.names[s], predicates.names[p], entities.names[o]))
    return pd.DataFrame(triples, index=lines, columns=list(COLUMNS), dtype="str"), faults


def _read_counted(
    path: Path, columns: tuple[str, ...], separator: str | None
) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Read the lines after the first one. Return them as pairs of line number and fields, and the faults of the file.

    The first line must be the number of the other lines. A line with a wrong number of columns is a fault, and is left
    out. Raises InputError if the file is missing, empty or not UTF-8.
    """
    head, *lines = _read_text(path, "its first line must be the number of lines after it").rstrip().split("\n")
    faults = []
    if head.strip() != str(len(lines)):
        faults.append(f"{path}, line 1: {head.strip()!r}: it must be {len(lines)}, the number of lines after it")
    rows = []
    for line, text in enumerate(lines, start=2):
        fields = text.rstrip("\r").split(separator)
        if len(fields) == len(columns):
            rows.append((line, fields))
        else:
            faults.append(
                f"{path}, line {line}: {len(fields)} columns: it must have {len(columns)}, {', '.join(columns)}"
            )
    return rows, faults


def _read_text(path: Path, requirement: str) -> str:
    """Return the text of a file. Raises InputError if the file is missing, not UTF-8, or empty.

    requirement  what the file must contain, for the error message if it is empty
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not data.strip():
        raise InputError(f"{path} is empty: {requirement}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8 text"
        ) from error
