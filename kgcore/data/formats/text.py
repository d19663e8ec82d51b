"""Text with columns, read block by block."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from kgcore.data.formats.base import COLUMNS, LABEL, Block, Format, TriplesFile, column_word, open_packed
from kgcore.data.formats.columns import OF_ONE_KIND, Columns, check_rows, find_columns, known_columns
from kgcore.errors import InputError
from kgcore.registries import FORMATS

BLOCK_BYTES = 2**24  # bytes of text per block
MOST_LINE_BYTES = 2**24  # a longer line is no triple, and would take quadratic time
MOST_QUOTED = 2**26  # bytes of text after which an open quote is a mistake
MOST_HEAD = 2**16  # bytes in which the first row after comments ends
MOST_PARTS = 10_000  # values of a block that look quoted in part, and are looked at
SIGNS = {"yes", "no", "y", "n", "t", "f", "+", "-", "pos", "neg", "positive", "negative", "not", "is"}  # of a truth
MOST_LATER = 100  # lines after a comment that may have the names of columns
MARK = b"\xef\xbb\xbf"  # the byte order mark, which spreadsheets write
BLANK = b"\r\n \t,"  # lines of these at the end of a file have no value
ENCLOSED = re.compile(rb'"[^"]*"|-?[0-9.eE+-]+|NA')  # a value of a table that R wrote: numbers have no quotes
# only a part of the value is quoted: `"Heroes" (album)`. It begins with the quote, which is found fast
QUOTED_START = re.compile(rb'"(?<![^,\t\n]")[^"\r\n]*(?<!\\)" *[^", \t\r\n]')
SEPARATORS = {
    "\t": "tabs separate its values: let its name end in .tsv",
    ",": "commas separate its values: let its name end in .csv",
    ";": "semicolons separate its values: save it with commas",
    "|": "bars separate its values: save it with tabs, as .tsv",
    " ": "blanks separate its values: save it with tabs, as .tsv",
}


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
        if not self.quotes:
            return line.split(self.delimiter)
        try:
            return next(csv.reader([line.replace("\r", " ")], delimiter=self.delimiter), None) or [""]
        except csv.Error:  # a value of more than 128 kB
            return line.split(self.delimiter)


TABS = Style("\t", False, "tab-separated")
QUOTED_TABS = Style("\t", True, "tab-separated")
COMMAS = Style(",", True, "comma-separated")


def read_text(source: TriplesFile, style: Style) -> Iterator[Block]:
    """Yield the blocks of a text file of triples.

    Raises InputError, with file and line, for a file that is empty or not UTF-8 text, and as `find_columns` does.
    """
    style = _with_quotes(source.path, style)
    kind = "columns" if source.further else f"{style.word} columns"
    find = partial(_find, source, style, kind)
    yield from read_lines(source.path, style, find, COLUMNS, kind, partial(check_rows, source))


def _with_quotes(path: Path, style: Style) -> Style:
    """Return the style of a file: with quotes if they enclose all text of the first lines, as R writes tables."""
    if style is not TABS:
        return style
    with open_packed(path) as (stream, _):
        head = stream.read(MOST_HEAD).removeprefix(MARK)
    lines = (head.splitlines() if len(head) < MOST_HEAD else head.splitlines()[:-1])[:MOST_LATER]
    enclosed = all(ENCLOSED.fullmatch(value) for line in lines for value in line.split(b"\t"))
    return QUOTED_TABS if lines and lines[0].startswith(b'"') and enclosed else style


def _find(source: TriplesFile, style: Style, kind: str, cells: list[str]) -> Columns:
    line = style.delimiter.join(cells)
    if line.startswith("<") and re.search(r">\s*\.$", line):
        raise InputError(f"{source.path}, line 1: it looks like N-Triples: let its name end in .nt")
    if re.fullmatch(r"sep=.", line):
        hint = SEPARATORS.get(line[-1]) if line[-1] != style.delimiter else None
        raise InputError(
            f"{source.path}, line 1: {line} is for a spreadsheet: delete the line" + f"; {hint}" * bool(hint)
        )
    is_few = len(cells) < len(COLUMNS) and not source.columns
    has_tabs = style is COMMAS and line.count("\t") >= len(COLUMNS) - 1
    if (is_few or has_tabs) and (hint := _other_separator(style, line)):
        width = f"{len(cells)} {kind}: it must have {len(COLUMNS)}, and " if is_few else ""
        raise InputError(f"{source.path}, line 1: {width}{hint}")
    columns = find_columns(source, cells)
    if source.labelled is None and len(cells) > columns.width:
        is_index = not cells[0] or (cells[0].isdecimal() and not cells[2].isdecimal())  # of a table of pandas
        places = "2,3,4" if is_index else "1,2,3"
        words = all(cell.replace("_", "").isalpha() for cell in cells[:3])
        names = ",".join([*cells[:3], *(cell for cell in cells[3:] if column_word(cell) == LABEL)])
        raise InputError(
            f"{source.path}, line 1: {len(cells)} {kind}: it must have {columns.width}, or --columns must say which "
            f"are subject, predicate and object, such as --columns {places}"
            + (f", or --columns {names} if the first line has names" if words else "")
            + (". If the fourth column says which are true, write 1 and -1 in it" if cells[3].lower() in SIGNS else "")
            + " (a column of times can divide the facts: --split time:4)"
        )
    return columns


def _other_separator(style: Style, line: str) -> str:
    """Return how to mend a line whose values another character separates; empty if none does. Blanks come last."""
    others = (mark for mark in SEPARATORS if mark != style.delimiter and line.count(mark) >= len(COLUMNS) - 1)
    separator = max(others, key=lambda mark: (mark != " ", mark == "\t", line.count(mark)), default=None)
    return SEPARATORS[separator] if separator else ""


def read_lines(
    path: Path,
    style: Style,
    find: Callable[[list[str]], Columns],
    required: Sequence[str],
    kind: str = "columns",
    check: Callable[[Columns, pa.Table], None] = lambda columns, rows: None,
) -> Iterator[Block]:
    """Yield the blocks of a text file with columns. All values are strings.

    find      function of the values of the first line, which returns the columns
    required  columns that the file must have, for the message about an empty file
    kind      what the columns are called in messages
    check     function of the columns and the rows of the first block, which raises InputError if they do not fit

    Lines before the first one that begin with # or ! are comments if they have fewer values than are required, or,
    between commas, if they are unlike the line after them: see `_comments`. Blank lines at the end are no rows, and
    blanks around values are no part of them if those of a header have such blanks.

    Raises InputError, with file and line, for a file that is empty or not UTF-8 text, and as `find` does.
    """
    columns, line = None, 1
    for data, done in _whole_records(path) if style.quotes else whole_lines(path):
        check_text(path, data, line)
        if columns is None:
            comments, data = _comments(data.removeprefix(MARK), style, len(required))
            line += comments
            if not data:
                continue
            head, _, rest = data.partition(b"\n")
            cells = style.cells(head.decode().rstrip("\r"))
            columns = find(cells)
            spaced = columns.header and any(cell != cell.strip(" ") for cell in cells)
            loose = style.quotes and any(cell.startswith(' "') for cell in cells)  # `"a", "b"`
            if columns.header:
                below, data = _comments(rest, style, len(required)) if head.startswith(b"#") else (0, rest)
                line += 1 + below
            first = True
        if data:
            (table, refused), inner = _parse(path, data, columns, style, line), list[int]()
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            if style.quotes and b'"' in data:
                loose = loose or (spaced and style.delimiter.encode() + b' "' in data)
                if loose or len(table) + len(refused) != lines:
                    table, refused, inner = _parse_records(path, data, columns, style, line, loose)
                _check_quoted(path, data, columns, style, line)
                _check_escapes(path, data, table)
            if spaced:
                table = pa.table([pc.utf8_trim(column, " ") for column in table.columns], table.column_names)
            if first and not refused:
                check(columns, table)
            first = False
            faults = tuple(_faults(path, refused, columns, kind))
            skipped = tuple(sorted([*inner, *(number for number, _ in refused)]))
            block = Block(table, done, line, skipped, faults, unread=columns.unread)
            yield _without_nodes(block) if columns.nodes else block
        line += data.count(b"\n")
    if columns is None:
        raise InputError(f"{path} is empty: it must have the columns {', '.join(required)}")


def _check_quoted(path: Path, data: bytes, columns: Columns, style: Style, line: int) -> None:
    """Raise InputError, with the line, if a value of a column that is read is quoted in part: `"Heroes" (album)`."""
    quotes, end = 0, 0
    for found in islice(QUOTED_START.finditer(data), MOST_PARTS):
        quotes, end = quotes + data.count(b'"', end, found.start()), found.start()
        begin = data.rfind(b"\n", 0, end) + 1
        before = data[begin:end].decode(errors="replace")
        is_start = quotes % 2 == 0 and before.count('"') % 2 == 0
        if is_start and len(style.cells(f"{before}x")) - 1 in columns.names.values():
            place = line + data.count(b"\n", 0, begin)
            raise InputError(f"{path}, line {place}: a quote that opens a value must be closed where the value ends")


def _check_escapes(path: Path, data: bytes, table: pa.Table) -> None:
    """Raise InputError if values show that a backslash stands before a quote that does not end them: `5\\ mg"`."""
    for column in table.columns if b'\\"' in data else ():
        cut = column.filter(pc.match_substring_regex(column, r'\\[^"].*"$'))
        if len(cut):
            raise InputError(
                f"{path} has backslashes before quotes, which then end a value too early, such as {cut[0]}: save the "
                "file with doubled quotes"
            )


def _comments(data: bytes, style: Style, fewest: int) -> tuple[int, bytes]:
    """Return the number of lines before the first row that are comments or blank, and the data from that row on.

    A comment begins with #, or between tabs with !, as in files of ontologies, and has fewer than `fewest` values.
    Prose may have more, between commas: it begins with ##, or # and a blank, and the first row has another number of
    values, or no blank after its commas, or a later line has the names of columns.
    """
    lines, start = list[tuple[list[str], int]](), 0
    marks = (b"#",) if style is COMMAS else (b"#", b"!")
    while data.startswith((*marks, b"\n", b"\r\n") if lines else marks, start):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        cells = style.cells(data[start:end].decode().rstrip("\r"))
        if len(cells) >= fewest and not (style is COMMAS and cells[0].startswith(("# ", "##"))):
            break
        lines.append((cells, end + 1))
        start = end + 1
    text = io.StringIO(data[start : start + MOST_HEAD].decode(errors="ignore"), newline="")
    row = next(csv.reader(text), []) if style is COMMAS else []
    number = start = 0
    for cells, end in lines:
        if len(cells) >= fewest:
            later = [row, *(other for other, _ in lines[number + 1 : number + MOST_LATER])]
            unlike = len(cells) != len(row) or (_spaced(cells) and not _spaced(row)) or any(map(known_columns, later))
            if not row or known_columns(cells) or not unlike:
                break
        number, start = number + 1, end
    return number, data[start:]


def _spaced(cells: Sequence[str]) -> bool:
    return any(cell.startswith(" ") for cell in cells[1:])


def _without_nodes(block: Block) -> Block:
    empty = [pc.equal(block.names[column], "").to_numpy() for column in COLUMNS]
    return block.without(np.logical_and.reduce(empty), "nodes_without_edges")


def _faults(path: Path, refused: Sequence[tuple[int, int]], columns: Columns, kind: str) -> Iterator[str]:
    """Yield a sentence for each run of lines with the same wrong number of columns."""
    widths = {width for _, width in refused}
    mend = ""
    if columns.header and widths == {columns.width + 1}:
        mend = ". R writes the names of rows so: write the table with row.names = FALSE"
    elif widths == {len(COLUMNS) - 1} and not columns.header:
        mend = OF_ONE_KIND
    runs = groupby(enumerate(refused), key=lambda entry: (entry[1][0] - entry[0], entry[1][1]))
    for (_, width), entries in runs:
        lines = [line for _, (line, _) in entries]
        place = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"
        yield f"{path}, {place}: {width} {kind}: it must have {columns.width}{mend}"


def whole_lines(path: Path) -> Iterator[tuple[bytes, float]]:
    """Yield blocks of whole lines, and the part of the file that has been read. Blank lines alone are no block."""
    size = max(path.stat().st_size, 1)
    with open_packed(path) as (stream, file):
        rest = b""
        while data := stream.read(BLOCK_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            if filled := len(data[:end].rstrip(BLANK)):
                end = data.index(b"\n", filled) + 1
                yield data[:end], min(file.tell() / size, 1.0)
            rest = data[end if filled else 0 :]
            if len(rest) > MOST_LINE_BYTES and rest.strip(BLANK):
                most = f"{MOST_LINE_BYTES / 2**20:g} MiB"
                raise InputError(f"{path} has a line of over {most}: each line must be one triple")
        if rest.strip(BLANK):
            yield rest, 1.0


def _whole_records(path: Path) -> Iterator[tuple[bytes, float]]:
    """Yield the blocks of `whole_lines`, joined while they end inside quotes and have at most MOST_QUOTED bytes."""
    waiting = b""
    for data, done in whole_lines(path):
        waiting += data
        if waiting.count(b'"') % 2 == 0 or len(waiting) > MOST_QUOTED:
            yield waiting, done
            waiting = b""
    if waiting:
        yield waiting, 1.0


def check_text(path: Path, data: bytes, line: int) -> None:
    """Raise InputError, with the line, for bytes that are no UTF-8 text, or one line for a program of today."""
    if b"\r" in (lines := data.rstrip()) and b"\n" not in lines and b'"' not in lines:
        raise InputError(f"{path} has carriage returns in place of line ends: save it with line feeds")
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


def _parse_records(
    path: Path, data: bytes, columns: Columns, style: Style, line: int, loose: bool
) -> tuple[pa.Table, list[tuple[int, int]], list[int]]:
    """Return what `_parse` does for text whose quotes enclose line breaks, and the numbers of the lines inside values.

    loose  whether a blank may stand between a delimiter and a quote

    Raises InputError for a quote that is not closed where its value ends.
    """
    csv.field_size_limit(MOST_LINE_BYTES)
    lines = io.StringIO(data.decode(), newline="\n")
    reader = csv.reader(lines, delimiter=style.delimiter, skipinitialspace=loose, strict=True)
    rows, refused, inner, begun = list[list[str]](), list[tuple[int, int]](), list[int](), 0
    try:
        for cells in reader:
            inner += range(line + begun + 1, line + reader.line_num)
            if len(cells) == columns.width:
                rows.append(cells)
            else:
                refused.append((line + begun, max(1, len(cells))))
            begun = reader.line_num
    except csv.Error as error:
        raise InputError(
            f"{path}, line {line + begun}: a quote that opens a value must be closed where the value ends ({error})"
        ) from error
    values = {name: [row[place] for row in rows] for name, place in columns.names.items()}
    return pa.table({name: pa.array(column, pa.string()) for name, column in values.items()}), refused, inner


FORMATS.add("csv", Format("comma-separated text", (".csv",), partial(read_text, style=COMMAS)))


FORMATS.add("tsv", Format("tab-separated text", (".tsv", ".txt"), partial(read_text, style=TABS)))
