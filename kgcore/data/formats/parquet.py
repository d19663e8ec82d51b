"""Parquet tables. Names may be text, numbers or categories."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from kgcore.config.base import GROUP, TIME
from kgcore.data.formats.base import (
    BLOCK_ROWS,
    COLUMNS,
    CONFIDENCE,
    LABEL,
    NEGATIONS,
    QUALIFIER,
    Block,
    Format,
    TriplesFile,
)
from kgcore.data.formats.columns import Columns, find_columns
from kgcore.errors import InputError, first_line
from kgcore.registries import FORMATS

if TYPE_CHECKING:
    pass

MOST_TEXT = 2**28  # bytes of text in a block


def read_parquet(source: TriplesFile) -> Iterator[Block]:
    """Yield the blocks of a Parquet file. Raises InputError if it cannot be read, and as `find_columns` does."""
    for block in read_row_groups(source.path, partial(find_columns, source, named=True)):
        yield replace(block, names=_as_text(source, block.names))


def read_row_groups(path: Path, find: Callable[[list[str]], Columns]) -> Iterator[Block]:
    """Yield the blocks of a Parquet file with the columns that `find` returns for the names of all, in their types.

    Raises InputError if the file cannot be read, and as `find` does.
    """
    try:
        schema = pa.parquet.read_schema(path)
        found = find(schema.names)
        columns, unread = found.names, found.unread
        wanted = [schema.names[place] for place in columns.values()]
        # a value that occurs often is in memory once, until the size of the text is known
        texts = [name for name in wanted if schema.field(name).type in (pa.string(), pa.large_string())]
        with pa.parquet.ParquetFile(path, read_dictionary=texts) as file:
            rows, done = max(file.metadata.num_rows, 1), 0
            for batch in file.iter_batches(BLOCK_ROWS, columns=wanted):
                table = pa.table(batch).select(wanted)
                _check_size(path, table)
                kinds = pa.schema([schema.field(name) for name in wanted])
                table = table.cast(kinds).rename_columns(list(columns))
                yield Block(table, (done + len(batch)) / rows, done + 1, unread=unread)
                done += len(batch)
    except (pa.ArrowInvalid, pa.ArrowMemoryError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {first_line(error)}") from error


def _check_size(path: Path, table: pa.Table) -> None:
    """Raise InputError if the values of a block are far larger than the file: a few long ones that occur often."""
    size = 0
    for part in (part for column in table.columns for part in column.chunks if pa.types.is_dictionary(part.type)):
        if pa.types.is_string(part.type.value_type) or pa.types.is_large_string(part.type.value_type):
            size += pc.sum(pc.binary_length(part.dictionary).take(part.indices)).as_py() or 0
    if size > MOST_TEXT:
        raise InputError(f"{path} has {size:,} bytes of text in {len(table):,} rows: it must have shorter names")


def _as_text(source: TriplesFile, table: pa.Table) -> pa.Table:
    """Return the table with all but further columns as strings. A missing value is empty."""
    others = () if source.further else (LABEL, *NEGATIONS, CONFIDENCE, TIME, GROUP)
    for name in (*COLUMNS, *(other for other in others if other in table.column_names)):
        column = table[name]
        if name == QUALIFIER and not _is_text(column.type):  # of something else than Gene Ontology
            column = pa.nulls(len(table), pa.string())
        if name in COLUMNS and pa.types.is_floating(column.type):
            column = _whole_as_integers(source, name, column)
        try:
            text = pc.fill_null(column.cast(pa.string()), "")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise InputError(
                f"the column {name} of {source.path} has the type {column.type}: it must be text"
            ) from error
        table = table.set_column(table.schema.get_field_index(name), name, text)
    return table


def _whole_as_integers(source: TriplesFile, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return names that are numbers as text, without a fraction of 0: pandas makes integers floats beside missing ones.

    Raises InputError for a whole number of 2^53 to 2^63, whose last digits are lost.
    """
    numbers = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    size = pc.abs(numbers)
    whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(size, 2.0**63))
    if pc.any(lost := pc.and_(whole, pc.greater_equal(size, 2.0**53))).as_py():
        raise InputError(
            f"the column {name} of {source.path} has numbers such as {numbers.filter(lost)[0].as_py():.0f}, whose last "
            "digits a table of floats has lost: save its names as text or integers"
        )
    integers = pc.if_else(whole, numbers, 0).cast(pa.int64())
    return pc.if_else(whole, integers.cast(pa.string()), numbers.cast(pa.string()))


def _is_text(kind: pa.DataType) -> bool:
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary)
    return any(of(kind) for of in is_text)


FORMATS.add("parquet", Format("Parquet", (".parquet",), read_parquet, unit="row", packed=False))
