"""Find the columns of a table: by the setting `columns`, by the names in its header, or by position."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgcore.config.base import GROUP, TIME
from kgcore.data.formats.base import COLUMNS, CONFIDENCE, LABEL, TriplesFile
from kgcore.errors import InputError

# A header is a first row that has one of these names for each part of a triple. An earlier name has priority.
NAMES = {
    "subject": ("subject", "head", "source", "subj", "src", "from", "s", "h"),
    "predicate": ("predicate", "relation", "rel", "pred", "property", "edge", "edge_label", "edge_type", "p", "r"),
    "object": ("object", "tail", "target", "obj", "tgt", "dst", "to", "o", "t"),
}
# label in lower case -> 1 / 0
MEANING = {"1": 1, "1.0": 1, "true": 1, "-1": 0, "-1.0": 0, "0": 0, "0.0": 0, "false": 0}
# what a column that the user chooses must have
MUST_BE = {CONFIDENCE: "a column of numbers from 0 to 1", TIME: "a column of numbers or dates", GROUP: "another column"}
NODES = {"id", "category"}  # columns of a KGX file of nodes


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    header  whether the first row has the names of the columns
    width   number of columns of every row
    names   name -> position from 0: subject, predicate, object, label, confidence, time or group if there is one, and
            further columns
    """

    header: bool
    width: int
    names: dict[str, int]


def find_columns(source: TriplesFile, row: Sequence[str], named: bool = False) -> Columns:
    """Return the columns of a table.

    row    its first row, or the names of its columns
    named  whether `row` has the names of the columns for sure, as in Parquet

    Raises InputError if a column is missing, if two columns have the same name, or if a table without names has too
    many or too few columns.
    """
    cells = [cell.strip() for cell in row]
    known = _known(cells)
    if source.columns:
        columns = Columns(*_given(source, cells, named, known is not None))
    elif known is not None:
        used = {cells[place].lower() for place in known.values()}
        check_twice(source.path, [cell.lower() for cell in cells if cell.lower() in used])
        columns = Columns(True, len(cells), known)
    elif named or _looks_like_names(cells):
        _refuse_missing(source, cells)
    else:
        columns = Columns(False, *_by_position(source, cells))
    for name, (option, wanted) in source.chosen.items():
        columns = _with_chosen(source, cells, columns, name, option, wanted)
    if source.labelled and LABEL not in columns.names:
        raise InputError(f"{source.path} has no column {LABEL}: it must have {', '.join(COLUMNS)} and {LABEL}")
    return _with_further(source, cells, columns) if source.further else columns


def _known(cells: Sequence[str]) -> dict[str, int] | None:
    """Return the positions of the columns by the names in NAMES, or None if a part of a triple has no such column."""
    lower = [cell.lower() for cell in cells]
    places: dict[str, int] = {}
    for column, names in NAMES.items():
        place = next((lower.index(name) for name in names if name in lower), None)
        if place is None:
            return None
        places[column] = place
    return places | ({LABEL: lower.index(LABEL)} if LABEL in lower else {})


def _looks_like_names(cells: Sequence[str]) -> bool:
    """Return whether a first row is a header without a subject or an object.

    It has a word of NAMES for the predicate, and one for the subject or the object. Words for these two alone, such as
    head and tail, can be a triple.
    """
    lower = {cell.lower() for cell in cells if len(cell) > 1}
    subject, predicate, thing = (not lower.isdisjoint(names) for names in NAMES.values())
    return predicate and (subject or thing)


def _given(source: TriplesFile, cells: Sequence[str], named: bool, known: bool) -> tuple[bool, int, dict[str, int]]:
    """Return header, width and positions of the columns that the setting `columns` names."""
    parts = (*COLUMNS, LABEL)[: len(source.columns)]
    if all(entry.isdecimal() for entry in source.columns) and not set(source.columns) <= set(cells):
        places = [int(entry) - 1 for entry in source.columns]
        if not all(0 <= place < len(cells) for place in places):
            raise InputError(
                f"{source.path} has {len(cells)} columns: --columns {','.join(source.columns)} must be positions from "
                f"1 to {len(cells)}, or names of its first row"
            )
        return named or known, len(cells), dict(zip(parts, places, strict=True))
    missing = [entry for entry in source.columns if entry not in cells]
    if missing:
        raise InputError(
            f"{source.path} has no column {', '.join(missing)}: --columns must name three of {', '.join(cells)}, or "
            "positions from 1"
        )
    return True, len(cells), {column: cells.index(entry) for column, entry in zip(parts, source.columns, strict=True)}


def _refuse_missing(source: TriplesFile, cells: Sequence[str]) -> None:
    lower = {cell.lower() for cell in cells}
    missing = [column for column, names in NAMES.items() if not lower.intersection(names)]
    instead = "" if source.further else f", or --columns must name three of {', '.join(cells)}"
    raise InputError(f"{source.path} has no column {', '.join(missing)}: it must have {', '.join(COLUMNS)}{instead}")


def _by_position(source: TriplesFile, cells: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Return width and positions of the columns of a table without names.

    The width is 4 if there must be or is a label. A table with another number of columns has faults, which name lines.
    """
    places = {column: place for place, column in enumerate(COLUMNS)}
    if {cell.lower() for cell in cells} >= NODES:
        raise InputError(f"{source.path} is a file of nodes, with the columns id and category: give the file of edges")
    if source.further:
        if len(cells) < len(COLUMNS):
            raise InputError(
                f"{source.path}, line 1: {len(cells)} columns: it must have at least 3, {', '.join(COLUMNS)}"
            )
        return len(cells), places
    if source.times or source.groups:
        return len(cells), places | _label_beside(source, cells)
    if source.labelled is None and len(cells) > len(COLUMNS) + 1:
        raise InputError(
            f"{source.path}, line 1: {len(cells)} columns without known names: it must have 3 or 4, a first line with "
            f"names such as {', '.join(COLUMNS)}, or --columns must say which"
        )
    if source.confidence:
        return len(cells), places
    if source.labelled is None and len(cells) == len(COLUMNS) + 1 and _is_share(cells[-1]):
        raise InputError(
            f"{source.path}, line 1: the fourth column is {cells[-1]}, which is no label: give --confidence 4 if it is "
            "a confidence, or --columns 1,2,3 to leave it out"
        )
    may_be = source.held_out or cells[-1].lower() in MEANING
    fourth = source.labelled if source.labelled is not None else len(cells) == len(COLUMNS) + 1 and may_be
    return len(COLUMNS) + fourth, places | ({LABEL: len(COLUMNS)} if fourth else {})


def _label_beside(source: TriplesFile, cells: Sequence[str]) -> dict[str, int]:
    """Return the position of the label in a table without names that has a column of times or groups."""
    fourth = len(COLUMNS)
    chosen = {wanted for _, wanted in source.chosen.values()}
    is_label = len(cells) > fourth and cells[fourth].lower() in MEANING and str(fourth + 1) not in chosen
    return {LABEL: fourth} if is_label else {}


def _is_share(text: str) -> bool:
    """Return whether a value is a number between 0 and 1, and no label."""
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def _with_chosen(
    source: TriplesFile, cells: Sequence[str], found: Columns, name: str, option: str, wanted: str
) -> Columns:
    """Add a column of confidences, times or groups that the user chooses by an option: `option` + `wanted`."""
    given = f"{option}{wanted}"
    if name == CONFIDENCE and LABEL in found.names:
        raise InputError(
            f"{source.path} has a column of labels, and {given} is given: a triple has a label or a confidence, so "
            "give --columns without the label, or leave out --confidence"
        )
    if found.header and wanted in cells:
        place = cells.index(wanted)
    elif wanted.isdecimal() and 1 <= int(wanted) <= len(cells):
        place = int(wanted) - 1
    else:
        names = f"one of {', '.join(cells)}, or " if found.header else ""
        raise InputError(
            f"{source.path} has no column {wanted}: {option.strip(': ')} must be {names}a position from 1 to "
            f"{len(cells)}"
        )
    for column, other in found.names.items():
        if other == place:
            raise InputError(f"{source.path}: {given} is the column of the {column}: it must be {MUST_BE[name]}")
    return Columns(found.header, found.width, found.names | {name: place})


def _with_further(source: TriplesFile, cells: Sequence[str], found: Columns) -> Columns:
    """Add all other columns. A column without a name is `column_4`, by its position."""
    taken = set(found.names.values())
    others = [place for place in range(len(cells)) if place not in taken]
    names = [cells[place] if found.header else f"column_{place + 1}" for place in others]
    check_twice(source.path, [*found.names, *names])
    return Columns(found.header, found.width, found.names | dict(zip(names, others, strict=True)))


def check_twice(path: Path, names: Sequence[str]) -> None:
    """Raise InputError if two columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{path} has the column {', '.join(twice)} twice: give every column its own name")
