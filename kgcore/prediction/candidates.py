"""Reads candidate triples from a text file or a Parquet file, block by block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from kgcore.datasets.blocks import check_twice, read_blocks
from kgcore.datasets.read import COLUMNS
from kgcore.errors import InputError


@dataclass(frozen=True)
class Block:
    """Some rows of a file.

    names  the rows as text: the columns subject, predicate, object, then all other columns of the file
    done   the part of the file that has been read so far, from 0 to 1
    """

    names: pa.Table
    done: float


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
    typed = path.suffix.lower() == ".parquet"
    for block in read_blocks(path, partial(_parquet_names if typed else _text_names, path), COLUMNS):
        yield Block(_ordered(_as_text(path, block.table) if typed else block.table), block.done)


def _parquet_names(path: Path, names: list[str]) -> tuple[list[str], bool]:
    _check_names(path, names)
    return names, True


def _text_names(path: Path, head: list[str]) -> tuple[list[str], bool]:
    """Return the names of the columns of a text file, and whether its first line names them."""
    header = set(COLUMNS) <= {name.strip().lower() for name in head}
    names = [name.strip() for name in head] if header else _default_names(path, head)
    names = [name.lower() if name.lower() in COLUMNS else name for name in names]
    _check_names(path, names)
    return names, header


def _as_text(path: Path, table: pa.Table) -> pa.Table:
    """Return the table with subject, predicate and object as strings."""
    for name in COLUMNS:
        place, column = table.schema.get_field_index(name), table[name]
        try:
            table = table.set_column(place, name, column.cast(pa.string()))
        except pa.ArrowNotImplementedError as error:
            raise InputError(f"the column {name} of {path} has the type {column.type}: it must be text") from error
    return table


def _default_names(path: Path, head: Sequence[str]) -> list[str]:
    if len(head) < len(COLUMNS):
        raise InputError(f"{path}, line 1: {len(head)} columns: it must have at least 3, {', '.join(COLUMNS)}")
    return [*COLUMNS, *(f"column_{number}" for number in range(4, len(head) + 1))]


def _check_names(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}: it must have {', '.join(COLUMNS)}")
    check_twice(path, names)


def _ordered(table: pa.Table) -> pa.Table:
    """Return the table with subject, predicate and object as its first columns."""
    return table.select([*COLUMNS, *(name for name in table.column_names if name not in COLUMNS)])
