"""Read the names of the rows of a table, from a text file or from a table of ids and names."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from kgcore.errors import InputError


def read_names(path: Path) -> list[str]:
    """Return the names of the rows, in the order of the rows.

    Each line has a name, and the first line is row 0; or each line has a row number, from 0, and a name, in either
    order, with a tab between them. A first line `id` and `label`, or the number of the names, is left out. A file that
    ends in .gz is unpacked.

    Raises InputError if the file cannot be read, if a name is empty or occurs twice, or if the numbers are not those of
    the rows.
    """
    lines = _lines(path)
    fields = [line.split("\t") for line in lines]
    start = 1 if _has_header(fields) else 0
    width = {len(row) for row in fields[start:]}
    if width == {2}:
        named = [(row, number) for number, row in enumerate(fields[start:], start=start + 1)]
        names = _numbered(path, named)
    elif width == {1}:
        names = [row[0] for row in fields[start:]]
    else:
        shown = next((n for n, row in enumerate(fields[start:], start + 1) if len(row) not in (1, 2)), start + 1)
        raise InputError(f"{path}, line {shown}: each line must have a name, or a row number, a tab and a name")
    _check(path, names)
    return names


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path} does not exist: give a file with the name of each row of the table")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = data.decode("utf-8-sig").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text in UTF-8: {error}") from error
    if not lines:
        raise InputError(f"{path} is empty: it must have the name of each row of the table")
    return lines


def _has_header(fields: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is `id` and `label` (PyKEEN), or the number of the names (OpenKE)."""
    first, rest = list(fields[0]), fields[1:]
    if sorted(first) == ["id", "label"]:
        return True
    return bool(rest) and first == [str(len(rest))] and all(len(row) == 2 for row in rest)


def _numbered(path: Path, rows: Sequence[tuple[Sequence[str], int]]) -> list[str]:
    """Return the names by their row number, which is in one of two columns.

    rows  (the two fields, number of the line)
    """
    wanted = {str(number) for number in range(len(rows))}
    columns = [column for column in (0, 1) if {row[column] for row, _ in rows} == wanted]
    if not columns:
        raise InputError(
            f"{path} has lines of two fields, but neither column has the row numbers 0 to {len(rows) - 1}, each once: "
            "one column must have them, the other the names"
        )
    column = columns[0]
    by_number = {int(row[column]): row[1 - column] for row, _ in rows}
    return [by_number[number] for number in range(len(rows))]


def _check(path: Path, names: Sequence[str]) -> None:
    """Raise InputError if a name is empty or occurs twice."""
    seen: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise InputError(f"{path}: the name of row {row} is empty; each row must have a name")
        if name in seen:
            raise InputError(f"{path}: {name} is the name of rows {seen[name]} and {row}; each row must have its own")
        seen[name] = row
