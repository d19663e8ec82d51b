"""Writes a table to a Parquet, CSV or TSV file, block by block. The file appears complete or not at all."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from kgcore.errors import InputError, first_line
from kgcore.outputs import whole_file

ENDINGS = (".parquet", ".csv", ".tsv")


def check_ending(path: Path, endings: Collection[str] = ENDINGS) -> None:
    """Raise InputError if the name of an output file has none of these endings."""
    if path.suffix.lower() not in endings:
        raise InputError(f"{path} is of an unknown kind: its name must end in {', '.join(endings)}")


@contextmanager
def sink(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that appends a table to the file. All tables must have the same columns.

    The file appears when it is complete: see `whole_file`.

    .parquet  typed columns, compressed with zstd
    .csv      a header, commas, quotes where they are needed; a missing value is empty
    .tsv      a header, tabs, no quotes; a missing value is empty

    Raises InputError for another ending, for a value with a tab or a line break in a .tsv file, and if the file cannot
    be written.
    """
    check_ending(path)
    try:
        with whole_file(path) as partial, partial.open("wb") as file, ExitStack() as writers:
            write: Callable[[pa.Table], None] | None = None

            def append(table: pa.Table) -> None:
                nonlocal write
                if write is None:
                    write = _writer(path.suffix.lower(), file, table.schema, writers)
                write(table)

            yield append
    except OSError as error:
        raise InputError(f"{path.absolute()} cannot be written: {error.strerror or first_line(error)}") from error


def _writer(kind: str, file: BinaryIO, schema: pa.Schema, writers: ExitStack) -> Callable[[pa.Table], None]:
    """Return the function that appends tables to an open file of a kind. `writers` closes it."""
    if kind == ".parquet":
        parquet = writers.enter_context(pa.parquet.ParquetWriter(file, schema, compression="zstd"))
        return parquet.write_table  # type: ignore[no-any-return]
    if kind == ".csv":
        return writers.enter_context(pa.csv.CSVWriter(file, schema)).write_table  # type: ignore[no-any-return]
    file.write(("\t".join(schema.names) + "\n").encode())
    return lambda table: _write_tsv(file, table)


def _write_tsv(file: BinaryIO, table: pa.Table) -> None:
    """Append a table to a text file with tabs. pyarrow's writer refuses quotes in names."""
    texts = [_text(name, table[name]) for name in table.column_names]
    texts[-1] = pc.binary_join_element_wise(texts[-1], _word("\n"), _word(""))
    file.write(_bytes(pc.binary_join_element_wise(*texts, _word("\t"))))


def _text(name: str, column: pa.ChunkedArray) -> pa.Array:
    """Return a column as text, with the shortest digits that give the same number again. A missing value is empty."""
    named = pc.match_substring_regex(column, r"[\t\r\n]") if pa.types.is_string(column.type) else None
    if named is not None and pc.any(named).as_py():
        raise InputError(f"a value of the column {name} has a tab or a line break: write .csv or .parquet instead")
    return pc.fill_null(column.cast(pa.large_string()), "").combine_chunks()


def _word(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _bytes(texts: pa.Array) -> memoryview:
    """Return the texts of an array, one after the other, without a copy."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]
