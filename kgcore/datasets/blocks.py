"""Reads a table from a text file or a Parquet file, block by block, so that a file may be larger than the memory."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet

from kgcore.datasets.read import parse_columns
from kgcore.errors import InputError, raise_faults

DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}
ENDINGS = (*DELIMITERS, ".parquet")
BLOCK_BYTES = 2**24  # bytes of text per block
BLOCK_ROWS = 2**18  # rows of Parquet per block

NameColumns: TypeAlias = Callable[[list[str]], tuple[list[str], bool]]


@dataclass(frozen=True)
class TableBlock:
    """Some rows of a file.

    table  the rows. All values of a text file are strings; a Parquet file keeps its types
    first  number of the first row: the line of a text file, the row of a Parquet file, both from 1
    done   the part of the file that has been read so far, from 0 to 1
    unit   what `first` counts: line or row
    """

    table: pa.Table
    first: int
    done: float
    unit: str


def check_readable(path: Path) -> None:
    """Raise InputError if a file is of an unknown kind or cannot be opened."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} is of an unknown kind: its name must end in {', '.join(ENDINGS)}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def read_blocks(
    path: Path, name_columns: NameColumns, required: Sequence[str], all_columns: bool = True
) -> Iterator[TableBlock]:
    """Read a file block by block.

    .tsv, .txt  columns separated by tabs, without quotes; all values are text
    .csv        columns separated by commas, with quotes where they are needed; all values are text
    .parquet    typed columns

    name_columns  function of the fields of the first line of a text file. It returns the names of the columns, and
                  whether the first line has them and is no row. It also checks the column names of a Parquet file
    required      columns that the file must have, for the message about an empty file
    all_columns   if false, only the required columns of a Parquet file are read

    Raises InputError for a file that is missing, empty, not UTF-8 or of another kind, and for lines with another number
    of columns than the first. The message has the file and the line.
    """
    check_readable(path)
    ending = path.suffix.lower()
    try:
        size = path.stat().st_size
        if ending == ".parquet":
            yield from _read_parquet(path, name_columns, None if all_columns else list(dict.fromkeys(required)))
        elif size == 0:
            raise InputError(f"{path} is empty: it must have the columns {', '.join(required)}")
        else:
            yield from _read_text(path, DELIMITERS[ending], size, name_columns)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def check_twice(path: Path, names: Sequence[str]) -> None:
    """Raise InputError if two columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path} has the column {', '.join(twice)} twice: give every column its own name")


def _read_parquet(path: Path, name_columns: NameColumns, columns: list[str] | None) -> Iterator[TableBlock]:
    """Read blocks of the named columns, or of all columns."""
    try:
        with pa.parquet.ParquetFile(path) as file:
            name_columns(file.schema_arrow.names)
            done, rows = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(BLOCK_ROWS, columns=columns):
                first, done = done + 1, done + len(batch)
                yield TableBlock(pa.table(batch), first, done / rows, "row")
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error


def _read_text(path: Path, delimiter: str, size: int, name_columns: NameColumns) -> Iterator[TableBlock]:
    """Read blocks of whole lines. A block with faults ends the reading."""
    with path.open("rb") as file:
        first = file.readline()
        names, header = name_columns(_fields(path, first, delimiter))
        rest, line = (b"", 2) if header else (first, 1)
        while data := file.read(BLOCK_BYTES):
            end = data.rfind(b"\n") + 1
            if not end:
                rest += data
                continue
            table, lines = _parse(path, rest + data[:end], names, delimiter, line)
            yield TableBlock(table, line, file.tell() / size, "line")
            rest, line = data[end:], line + lines
        if rest.strip(b"\r\n"):
            yield TableBlock(_parse(path, rest, names, delimiter, line)[0], line, 1.0, "line")


def _fields(path: Path, line: bytes, delimiter: str) -> list[str]:
    """Return the fields of the first line of a file."""
    _check_utf8(path, line, 1)
    text = line.decode().rstrip("\r\n")
    return next(csv.reader([text]), []) if delimiter == "," else text.split(delimiter)


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
    return table, data.count(b"\n")


def _check_utf8(path: Path, data: bytes, line: int) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise InputError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8 text"
        ) from error
