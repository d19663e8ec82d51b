"""SIF, the simple interaction format of Cytoscape: subject, predicate and one or more objects a line.

Tabs separate the values if a line has one; blanks do otherwise. A line with one value is a node without edges, and is
left out, as first lines are that begin with # and a blank. A first line with names of columns, as of Hetionet and
Pathway Commons, says which three are read.
"""

import re
from collections.abc import Iterator

import pyarrow as pa

from kgcore.data.formats.base import COLUMNS, Block, Format, TriplesFile
from kgcore.data.formats.columns import Columns, check_rows, find_columns
from kgcore.data.formats.text import MARK, check_text, whole_lines
from kgcore.errors import InputError
from kgcore.registries import FORMATS

NODE_TABLE = "PARTICIPANT\tPARTICIPANT_TYPE"  # begins the table of nodes below the edges of Pathway Commons
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def read_sif(source: TriplesFile) -> Iterator[Block]:
    """Yield the blocks of a SIF file. Raises InputError, with file and line, for a line with two or empty values."""
    if option := source.first_option:
        raise InputError(f"{source.path} is SIF, and the places of its values are fixed: leave out {option}")
    line, first, separator, columns, is_last = 1, 1, None, Columns(False, len(COLUMNS), {}), False
    for data, done in whole_lines(source.path):
        check_text(source.path, data, line)
        lines = data.removeprefix(MARK).decode().removesuffix("\n").split("\n")
        skip = 0
        if line == 1:
            skip = next((number for number, text in enumerate(lines) if text.strip() and text[:2] != "# "), 0)
            separator = "\t" if any("\t" in text for text in lines[skip:]) else None
            names = lines[skip].split(separator)[: len(COLUMNS)]
            columns = find_columns(source, names) if len(names) == len(COLUMNS) else columns
            skip += columns.header
        if columns.header and (ends := [n for n, text in enumerate(lines) if text.startswith(NODE_TABLE)]):
            lines, is_last = lines[: ends[0]], True
        rows, faults, nodes = _rows(source, lines[skip:], line + skip, separator, columns)
        table = pa.table([pa.array([row[place] for row in rows], pa.string()) for place in range(3)], names=COLUMNS)
        if line == 1:
            check_rows(source, columns, table, can_choose=False)
            _check_weights(source, lines[skip:], separator, columns)
        left_out = {"nodes_without_edges": nodes} if nodes else {}
        yield Block(table, done, first, faults=tuple(faults), left_out=left_out)
        line, first = line + len(lines), first + len(rows)
        if is_last:
            return


def _rows(
    source: TriplesFile, lines: list[str], line: int, separator: str | None, columns: Columns
) -> tuple[list[tuple[str, str, str]], list[str], int]:
    """Return the triples of lines from number `line` on, the faults, and the number of nodes without edges."""
    rows, faults, nodes = list[tuple[str, str, str]](), list[str](), 0
    s, p, o = (columns.names.get(name, place) for place, name in enumerate(COLUMNS))
    for number, text in enumerate(lines, start=line):
        values = [value.strip() for value in text.split(separator)]
        if len(values) < 2:
            nodes += bool(values and values[0])
        elif len(values) <= max(s, p, o) or not all(values):
            faults.append(
                f"{source.path}, line {number}: it must be subject, predicate and one or more objects, not {text!r}"
            )
        else:
            rows += [(values[s], values[p], thing) for thing in ([values[o]] if columns.header else values[o:])]
    return rows, faults, nodes


def _check_weights(source: TriplesFile, lines: list[str], separator: str | None, columns: Columns) -> None:
    """Raise InputError if all lines end in a number beside an object, and none is a subject.

    Some have a fraction, or all objects but the last ones are no numbers.
    """
    rows = [values for text in lines if len(values := text.split(separator)) > 1]
    last, subjects = {values[-1].strip() for values in rows}, {values[0].strip() for values in rows}
    further = bool(rows) and not columns.header and all(len(values) > len(COLUMNS) for values in rows)
    numbers = further and last.isdisjoint(subjects) and all(map(NUMBER.fullmatch, last))
    if numbers and (
        any("." in text for text in last) or not any(NUMBER.fullmatch(v) for row in rows for v in row[2:-1])
    ):
        mend = "save the file with tabs, as .tsv, and give --columns 1,2,3"
        if {len(values) for values in rows} != {len(COLUMNS) + 1}:
            mend = "leave the numbers out"
        elif last <= {"0", "1", "-1"}:
            mend += " if it is a weight, or --columns 1,2,3,4 if it is a label: 1 for true facts"
        elif all(0 <= float(text) <= 1 for text in last):
            mend += ", with --confidence 4 if it is a confidence"
        example = rows[0][-1].strip()
        raise InputError(
            f"{source.path}: every line ends in a number, such as {example}, which would be an object: {mend}"
        )


FORMATS.add("sif", Format("SIF", (".sif",), read_sif, unit="triple"))
