"""Text with columns, read block by block."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from kgcore.data.formats.base import COLUMNS, Block, Format, TriplesFile, open_packed
from kgcore.data.formats.columns import Columns, find_columns
from kgcore.errors import InputError
from kgcore.registries import FORMATS

BLOCK_BYTES = 2**24  # bytes of text per block
MARK = b"\xef\xbb\xbf"  # the byte order mark, which spreadsheets write


@dataclass(frozen=True)
class Style:
    """How the values of a line are separated.

    delimiter  the character between two values
    quotes     whether quotes may enclose a value; otherwise they are ordinary characters
    word       what such text is called in messages
    """

    delimiter: str
    quotes: bool
    word: str

    def cells(self, line: str) -> list[str]:
        """Return the values of a line."""
        return next(csv.reader([line], delimiter=self.delimiter), []) if self.quotes else line.split(self.delimiter)


TABS = Style("\t", False, "tab-separated")
QUOTED_TABS = Style("\t", True, "tab-separated")
COMMAS = Style(",", True, "comma-separated")


def read_text(source: TriplesFile, style: Style) -> Iterator[Block]:
    """Yield the blocks of a text file of triples.

    Raises InputError, with file and line, for a file that is empty or not UTF-8 text, and as `find_columns` does.
    """
    kind = "columns" if source.further else f"{style.word} columns"
    return read_lines(source.path, style, partial(find_columns, source), COLUMNS, kind)


def read_lines(
    path: Path, style: Style, find: Callable[[list[str]], Columns], required: Sequence[str], kind: str = "columns"
) -> Iterator[Block]:
    """Yield the blocks of a text file with columns. All values are strings.

    find      function of the values of the first line, which returns the columns
    required  columns that the file must have, for the message about an empty file
    kind      what the columns are called in messages

    Raises InputError, with file and line, for a file that is empty or not UTF-8 text, and as `find` does.
    """
    columns, line = None, 1
    for data, done in _whole_lines(path):
        _check_text(path, data, line)
        if columns is None:
            data = data.removeprefix(MARK)
            head, _, rest = data.partition(b"\n")
            columns = find(style.cells(head.decode().rstrip("\r")))
            data, line = (rest, 2) if columns.header else (data, 1)
        if data:
            table, refused = _parse(path, data, columns, style, line)
            faults = [f"{path}, line {n}: {width} {kind}: it must have {columns.width}" for n, width in refused]
            yield Block(table, done, line, tuple(n for n, _ in refused), tuple(faults))
        line += data.count(b"\n")
    if columns is None:
        raise InputError(f"{path} is empty: it must have the columns {', '.join(required)}")


def _whole_lines(path: Path) -> Iterator[tuple[bytes, float]]:
    """Yield blocks of whole lines, and the part of the file that has been read. White space alone is no block."""
    size = max(path.stat().st_size, 1)
    with open_packed(path) as (stream, file):
        rest = b""
        while data := stream.read(BLOCK_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > BLOCK_BYTES:
                raise InputError(f"{path} has a line of over {BLOCK_BYTES / 2**20:g} MiB: each line must be one triple")
            if data[:end].strip(b"\r\n \t"):
                yield data[:end], min(file.tell() / size, 1.0)
            else:
                rest = data
        if rest.strip(b"\r\n \t"):
            yield rest, 1.0


def _check_text(path: Path, data: bytes, line: int) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise InputError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8 text"
        ) from error
    if (place := data.find(b"\0")) >= 0:
        line += data.count(b"\n", 0, place)
        raise InputError(
            f"{path}, line {line}: the line has a byte 0x00, which is not text: save the file as UTF-8 text"
        )


def _parse(
    path: Path, data: bytes, columns: Columns, style: Style, line: int
) -> tuple[pa.Table, list[tuple[int, int]]]:
    """Return whole lines as columns of strings, and number and width of each line of another width. From `line` on."""
    refused: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        refused.append(row)
        return "skip"

    places = {place: name for name, place in columns.names.items()}
    names = [places.get(place, f" {place}") for place in range(columns.width)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            # a single block, so that the number of a refused row is its line
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            parse_options=pa.csv.ParseOptions(
                delimiter=style.delimiter,
                quote_char='"' if style.quotes else False,
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
        raise InputError(f"{path}, in the lines from {line}, cannot be read as {style.word} text: {error}") from error
    return table, [(line + row.number - 1, row.actual_columns) for row in refused]


FORMATS.add("csv", Format("comma-separated text", (".csv",), partial(read_text, style=COMMAS)))


FORMATS.add("tsv", Format("tab-separated text", (".tsv", ".txt"), partial(read_text, style=TABS)))
