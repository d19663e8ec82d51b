"""Text with columns, read block by block."""

import csv
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv

from kgcore.datasets.formats.base import COLUMNS, Block, Source
from kgcore.datasets.formats.columns import Columns, find_columns
from kgcore.datasets.formats.files import open_packed
from kgcore.errors import InputError

BLOCK_BYTES = 2**24  # bytes of text per block
MARK = b"\xef\xbb\xbf"  # the byte order mark, which spreadsheets write
WORDS = {"\t": "tab-separated", ",": "comma-separated"}


def read_text(source: Source, delimiter: str, quotes: bool) -> Iterator[Block]:
    """Yield the blocks of a text file with columns.

    quotes  whether quotes may enclose a value; otherwise they are ordinary characters

    Raises InputError, with file and line, for a file that is empty or not UTF-8, and as `find_columns` does.
    """
    columns, line = None, 1
    for data, done in _whole_lines(source):
        _check_utf8(source, data, line)
        if columns is None:
            data = data.removeprefix(MARK)
            head, _, rest = data.partition(b"\n")
            columns = find_columns(source, _cells(head.decode().rstrip("\r"), delimiter, quotes))
            data, line = (rest, 2) if columns.header else (data, 1)
        if data:
            yield _block(source, data, columns, (delimiter, quotes), line, done)
        line += data.count(b"\n")
    if columns is None:
        raise InputError(f"{source.path} is empty: it must have the columns {', '.join(COLUMNS)}")


def _whole_lines(source: Source) -> Iterator[tuple[bytes, float]]:
    """Yield blocks of whole lines, and the part of the file that has been read. White space alone is no block."""
    size = max(source.path.stat().st_size, 1)
    with open_packed(source.path) as (stream, file):
        rest = b""
        while data := stream.read(BLOCK_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if data[:end].strip(b"\r\n \t"):
                yield data[:end], min(file.tell() / size, 1.0)
            else:
                rest = data
        if rest.strip(b"\r\n \t"):
            yield rest, 1.0


def _check_utf8(source: Source, data: bytes, line: int) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise InputError(
            f"{source.path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8 text"
        ) from error


def _cells(line: str, delimiter: str, quotes: bool) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), []) if quotes else line.split(delimiter)


def _block(source: Source, data: bytes, columns: Columns, style: tuple[str, bool], line: int, done: float) -> Block:
    """Parse whole lines as columns of strings. A row with a wrong number of columns is a fault.

    style  delimiter, and whether there are quotes
    line   number of the first line in the file
    """
    refused: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        refused.append(row)
        return "skip"

    delimiter, quotes = style
    places = {place: name for name, place in columns.names.items()}
    names = [places.get(place, f" {place}") for place in range(columns.width)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            # a single block, so that the number of a refused row is its line
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quotes else False,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=list(columns.names),
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{source.path}, in the lines from {line}, cannot be read as {WORDS[delimiter]} text: {error}"
        ) from error
    kind = "columns" if source.further else f"{WORDS[delimiter]} columns"
    lines = [line + row.number - 1 for row in refused]
    faults = [
        f"{source.path}, line {number}: {row.actual_columns} {kind}: it must have {row.expected_columns}"
        for number, row in zip(lines, refused, strict=True)
    ]
    return Block(table, done, line, tuple(lines), tuple(faults))
