"""Reading triples, as tab-separated names or as ids of vocabularies, with the line of everything that is wrong."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from kgcore.errors import InputError, raise_faults

COLUMNS = ("subject", "predicate", "object")


def read_triples(path: Path, labelled: bool) -> tuple[pd.DataFrame, list[str]]:
    """The file as a table of strings: subject, predicate, object, and label where `labelled`; the index is the line,
    from 1. And its faults: lines with another number of columns, which are left out of the table.

    Raises InputError, with file and line, for a file that is missing, empty or not UTF-8.
    """
    names = [*COLUMNS, "label"] if labelled else list(COLUMNS)
    data = _read_text(path, f"lines of {len(names)} tab-separated columns are needed").encode()
    refused: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        refused.append(row)
        return "skip"

    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            # one block: a refused line then bears its number
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=max(len(data), 1)),
            parse_options=pa.csv.ParseOptions(
                delimiter="\t",
                quote_char=False,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as tab-separated text: {error}") from error
    lines = np.setdiff1d(np.arange(1, len(table) + len(refused) + 1), [row.number for row in refused])
    faults = [
        f"{path}, line {row.number}: {row.actual_columns} tab-separated columns, {row.expected_columns} are needed"
        for row in refused
    ]
    return table.to_pandas().set_index(lines), faults


@dataclass(frozen=True)
class Vocabulary:
    """The names that the ids of a data set stand for: `names` maps an id, as it is written, to its name."""

    path: Path
    names: dict[str, str]


def read_vocabulary(path: Path) -> Vocabulary:
    """The file's names: the first line is a count, the others are name, tab, id.

    Raises InputError, with file and line, for a wrong count or another number of columns, and for an id or a name
    that is empty or stands twice.
    """
    rows, faults = _read_counted(path, ("name", "id"), "\t")
    names: dict[str, str] = {}
    seen: set[str] = set()
    for line, (name, number) in rows:
        for word, value, known in (("name", name, seen), ("id", number, names)):
            if not value:
                faults.append(f"{path}, line {line}: the {word} is empty")
            elif value in known:
                faults.append(f"{path}, line {line}: the {word} {value} stands twice")
        names[number] = name
        seen.add(name)
    raise_faults(faults)
    return Vocabulary(path, names)


def read_numbered(path: Path, entities: Vocabulary, predicates: Vocabulary) -> tuple[pd.DataFrame, list[str]]:
    """The file as `read_triples` gives it, from ids: the first line is a count, the others are subject, object,
    predicate, separated by white space (the layout of OpenKE and TransC).

    Lines with an id that is in no vocabulary are faults and left out. Raises InputError as `read_triples` does.
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
    """The lines after the first, numbered and split; and the faults: a first line that is not their count, lines with
    another number of columns, which are left out."""
    head, *lines = _read_text(path, "a line with a count is needed, and lines that it counts").rstrip().split("\n")
    faults = []
    if head.strip() != str(len(lines)):
        faults.append(f"{path}, line 1: {head.strip()!r} is not the count of the lines that follow, {len(lines)}")
    rows = []
    for line, text in enumerate(lines, start=2):
        fields = text.rstrip("\r").split(separator)
        if len(fields) == len(columns):
            rows.append((line, fields))
        else:
            faults.append(
                f"{path}, line {line}: {len(fields)} columns, {len(columns)} are needed: {', '.join(columns)}"
            )
    return rows, faults


def _read_text(path: Path, needed: str) -> str:
    """The file's text. Raises InputError for a file that is missing, empty (it says what is needed) or not UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not data.strip():
        raise InputError(f"{path} is empty: {needed}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text") from error
