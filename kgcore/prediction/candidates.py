"""Reads candidate triples from a text file or a Parquet file, block by block."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from kgcore.datasets.read import COLUMNS, parse_columns
from kgcore.errors import InputError, raise_faults

DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}
ENDINGS = (*DELIMITERS, ".parquet")
BLOCK_BYTES = 2**24  # bytes of text per block
BLOCK_ROWS = 2**18  # rows of Parquet per block


@dataclass(frozen=True)
class Block:
    """Some rows of a file.

    names  the rows as text: the columns subject, predicate, object, then all other columns of the file
    done   the part of the file that has been read so far, from 0 to 1
    """

    names: pa.Table
    done: float


def check_readable(path: Path) -> None:
    """Raise InputError if a file of candidates is of an unknown kind or cannot be opened."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} is of an unknown kind: its name must end in {', '.join(ENDINGS)}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def read_candidates(path: Path) -> Iterator[Block]:
    """Read a file of candidate triples block by block. All values are read as text.

    .tsv, .txt  columns separated by tabs, without quotes
    .csv        columns separated by commas, with quotes where they are needed
    .parquet    columns subject, predicate, object

    If the first line of a text file names the columns subject, predicate and object, the columns may have any order.
    Otherwise the first three columns are subject, predicate and object, and further columns are column_4, column_5, ...

    Raises InputError for a file that is missing, empty, not UTF-8 or of another kind, for missing columns, and for
    lines with another number of columns than the first. The message has the file and the line.
    """
    check_readable(path)
    ending = path.suffix.lower()
    try:
        size = path.stat().st_size
        if ending == ".parquet":
            yield from _read_parquet(path)
        elif size == 0:
            raise InputError(f"{path} is empty: it must have the columns {', '.join(COLUMNS)}")
        else:
            yield from _read_text(path, DELIMITERS[ending], size)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_parquet(path: Path) -> Iterator[Block]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            _check_names(path, file.schema_arrow.names)
            done, rows = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(BLOCK_ROWS):
                done += len(batch)
                yield Block(_ordered(_as_text(path, pa.table(batch))), done / rows)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error


def _as_text(path: Path, table: pa.Table) -> pa.Table:
    """Return the table with subject, predicate and object as strings."""
    for name in COLUMNS:
        place, column = table.schema.get_field_index(name), table[name]
        try:
            table = table.set_column(place, name, column.cast(pa.string()))
        except pa.ArrowNotImplementedError as error:
            raise InputError(f"the column {name} of {path} has the type {column.type}: it must be text") from error
    return table


def _read_text(path: Path, delimiter: str, size: int) -> Iterator[Block]:
    """Read blocks of whole lines. A block with faults ends the reading."""
    with path.open("rb") as file:
        first = file.readline()
        head = _fields(path, first, delimiter)
        header = set(COLUMNS) <= {name.strip().lower() for name in head}
        names = [name.strip() for name in head] if header else _default_names(path, head)
        names = [name.lower() if name.lower() in COLUMNS else name for name in names]
        _check_names(path, names)
        rest, line = (b"", 2) if header else (first, 1)
        while data := file.read(BLOCK_BYTES):
            end = data.rfind(b"\n") + 1
            if not end:
                rest += data
                continue
            table, lines = _parse(path, rest + data[:end], names, delimiter, line)
            yield Block(table, file.tell() / size)
            rest, line = data[end:], line + lines
        if rest.strip(b"\r\n"):
            yield Block(_parse(path, rest, names, delimiter, line)[0], 1.0)


def _fields(path: Path, line: bytes, delimiter: str) -> list[str]:
    """Return the fields of the first line of a file."""
    _check_utf8(path, line, 1)
    text = line.decode().rstrip("\r\n")
    return next(csv.reader([text]), []) if delimiter == "," else text.split(delimiter)


def _default_names(path: Path, head: Sequence[str]) -> list[str]:
    if len(head) < len(COLUMNS):
        raise InputError(f"{path}, line 1: {len(head)} columns: it must have at least 3, {', '.join(COLUMNS)}")
    return [*COLUMNS, *(f"column_{number}" for number in range(4, len(head) + 1))]


def _check_names(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}: it must have {', '.join(COLUMNS)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path} has the column {', '.join(twice)} twice: give every column its own name")


def _parse(path: Path, data: bytes, names: Sequence[str], delimiter: str, line: int) -> tuple[pa.Table, int]:
    """Return the rows of whole lines as a table of text, and the number of lines.

    names  names of the columns
    line   number of the first line in the file
    """
    _check_utf8(path, data, line)
    try:
        table, refused = parse_columns(data, names, delimiter)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as text with columns: {error}") from error
    raise_faults(
        [
            f"{path}, line {line + row.number - 1}: {row.actual_columns} columns: it must have {row.expected_columns}"
            for row in refused
        ]
    )
    return _ordered(table), data.count(b"\n")


def _ordered(table: pa.Table) -> pa.Table:
    """Return the table with subject, predicate and object as its first columns."""
    return table.select([*COLUMNS, *(name for name in table.column_names if name not in COLUMNS)])


def _check_utf8(path: Path, data: bytes, line: int) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise InputError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8 text"
        ) from error
