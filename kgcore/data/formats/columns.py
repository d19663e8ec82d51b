"""Find the columns of a table: by the setting `columns`, by the names in its header, or by position."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kgcore.data.formats.base import (
    COLUMNS,
    DENIED,
    GO_RELATION,
    LABEL,
    NEGATED,
    NEGATIONS,
    POLARITY,
    QUALIFIER,
    TriplesFile,
    column_word,
    first_of,
)
from kgcore.data.formats.headers import (
    FURTHER,
    GEPHI,
    HEADER_CELL,
    LIKE_LABELS,
    MARKED_CELL,
    NAMES,
    PANDAS,
    PROVENANCE,
    VALIDITY,
    VOIDING,
    WIDE_CELL,
    WORDS,
    denies,
    id_spaces,
    in_order,
    may_be_limits,
    place_of_choice,
    refuse_like_labels,
    refuse_provenance,
    refuse_weak_names,
    types_of_ids,
)
from kgcore.errors import InputError

# A first row without a word of NAMES is odd if so many rows follow, and so many of each predicate
FEWEST_ROWS, FEWEST_FACTS = 20, 5
LIMIT = r"^\s*[-+]?[0-9][0-9.,:/TZ -]*$"  # a number or a date
# label in lower case -> 1 / 0
MEANING = {"1": 1, "1.0": 1, "true": 1, "-1": 0, "-1.0": 0, "0": 0, "0.0": 0, "false": 0}
OF_ONE_KIND = ". If all facts are of one kind, add a column predicate with the same word in every row"
NODES = ({"id", "category"}, {"id", "label"}, {"id", "name"})  # columns of a file of nodes: KGX; Neo4j; Hetionet


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    header  whether the first row has the names of the columns
    width   number of columns of every row
    names   name -> position from 0: subject, predicate, object, label, confidence, time or group if there is one, and
            further columns
    by_label  whether the column label has the predicates
    nodes     whether the table has rows of nodes, too, without the three names: a whole graph of APOC
    unread    part of a sentence, which names the columns of a header that are not read; empty: all are
    limits    the names of all columns, if subject and object may be limits of time or place; else empty
    """

    header: bool
    width: int
    names: dict[str, int]
    by_label: bool = False
    nodes: bool = False
    unread: str = ""
    limits: tuple[str, ...] = ()


def find_columns(source: TriplesFile, row: Sequence[str], named: bool = False) -> Columns:
    """Return the columns of a table.

    row    its first row, or the names of its columns
    named  whether `row` has the names of the columns for sure, as in Parquet

    Raises InputError if a column is missing, if two columns have the same name, or if a table without names has too
    many or too few columns.
    """
    cells = [cell.strip() for cell in row]
    if cells and (first := cells[0].lstrip("#% ")) in source.columns:
        cells[0] = first
    known = known_columns(cells)
    if source.columns:
        columns = _with_negations(source, cells, Columns(*_given(source, cells, named, known is not None)))
    elif known is not None:
        used = {cells[place].lower() for place in known.values()}
        check_twice(source.path, [cell.lower() for cell in cells if cell.lower() in used])
        by_label = column_word(cells[known["predicate"]]) == LABEL
        of_apoc = {"labels", "start"} <= {*map(column_word, cells)} and not source.further
        if not of_apoc:
            refuse_provenance(source, cells, known)
            refuse_weak_names(source, cells, known)
            refuse_like_labels(source, cells, known, _chosen(source, cells))
        limits = tuple(cells) if not of_apoc and may_be_limits(cells, known) else ()
        columns = _with_negations(source, cells, Columns(True, len(cells), known, by_label, of_apoc, limits=limits))
    elif of_nodes := next((words for words in NODES if words <= set(map(column_word, cells))), None):
        names = " and ".join(sorted(of_nodes, key=len))
        raise InputError(f"{source.path} is a file of nodes, with the columns {names}: give the file of edges")
    elif named or looks_like_names(cells):
        _refuse_missing(source, cells)
    else:
        columns = Columns(False, *_by_position(source, cells))
    for name, (option, wanted) in source.chosen.items():
        place = place_of_choice(source, cells, columns.names, columns.header, name, option, wanted)
        columns = replace(columns, names=columns.names | {name: place})
    if source.labelled and LABEL not in columns.names:
        raise InputError(f"{source.path} has no column {LABEL}: it must have {', '.join(COLUMNS)} and {LABEL}")
    if source.further:
        return _with_further(source, cells, columns)
    return replace(columns, unread=_unread(source, cells, columns))


def is_column(name: str, part: str) -> bool:
    """Return whether a name is that of the column of a part of a triple, in more than one letter."""
    return len(name) > 1 and column_word(name) in (*NAMES[part], LABEL)


def known_columns(cells: Sequence[str]) -> dict[str, int] | None:
    """Return the positions of the columns by the names in NAMES, or None if a part of a triple has no such column.

    `label` is the predicate if no other column is. A pair of VALIDITY or a word of PROVENANCE comes after all others.
    """
    words = [column_word(cell) for cell in cells]
    found = {part: next((name for name in names if name in words), None) for part, names in NAMES.items()}
    both = ends_of(words)
    if both in VALIDITY:
        limits = {name for pair in VALIDITY for name in pair}
        limits |= {name for name in PROVENANCE & {*words} if words.index(name) > words.index(both[0])}
        s, o = (
            next((name for name in NAMES[part] if name in {*words} - limits), None) for part in ("subject", "object")
        )
        both = (s, o) if s and o else both
    if both:
        found |= dict(zip(("subject", "object"), both, strict=True))
    elif found["subject"] in PROVENANCE:
        others = (name for name in NAMES["subject"] if name in words and name not in PROVENANCE)
        found["subject"] = next(others, found["subject"])
    if found["predicate"] is None or (found["predicate"] == "type" and set(words) >= GEPHI):
        found["predicate"] = LABEL if LABEL in words else None
    places = {part: words.index(name) for part, name in found.items() if name is not None}
    if len(places) < len(COLUMNS):
        return None
    return places | ({LABEL: words.index(LABEL)} if LABEL in words and found["predicate"] != LABEL else {})


def ends_of(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the first names of subject and object with the same place in NAMES; None if no two belong together."""
    pairs = zip(NAMES["subject"], NAMES["object"], strict=True)
    return next(((s, o) for s, o in pairs if {s, o} <= {*words}), None)


def looks_like_names(cells: Sequence[str]) -> bool:
    """Return whether a first row is a header without a subject, a predicate or an object.

    It has a word of NAMES for the predicate, and one for the subject or the object; or for these two, and one of
    FURTHER. Words for these two alone, such as head and tail, can be a triple.
    """
    words = {column_word(cell) for cell in cells if len(cell) > 1}
    subject, predicate, thing = (not words.isdisjoint(names) for names in NAMES.values())
    further = not FURTHER.isdisjoint(word.lower() for cell in cells for word in WORDS.split(cell))
    return (predicate and (subject or thing)) or (subject and thing and further)


def looks_like_header(cells: Sequence[str]) -> bool:
    """Return whether cells look like the names of columns, whatever these are."""
    return any(all(map(cell.fullmatch, cells)) for cell in (HEADER_CELL, MARKED_CELL))


def _with_negations(source: TriplesFile, cells: Sequence[str], found: Columns) -> Columns:
    """Add the columns of a header that say whether a fact is negated. If one was given as label, it is no label.

    Of candidates they are further columns: each of them is asked about. A qualifier beside labels, or that the user
    chooses for another purpose, says nothing more.
    """
    if source.further or not found.header:
        return found
    label = found.names.get(LABEL)
    used = [found.names[column] for column in COLUMNS if column in found.names]  # files of ids have two
    used += _chosen(source, cells)
    kinds = {denies(cell): place for place, cell in reversed([*enumerate(cells)]) if place not in used}
    places = {kind: kinds.get(kind) for kind in NEGATIONS}
    if label is not None and label != places[QUALIFIER]:
        places[QUALIFIER] = None
    added = {name: place for name, place in places.items() if place is not None}
    if len(twice := [cell for place, cell in enumerate(cells) if place not in used and denies(cell) == NEGATED]) > 1:
        raise InputError(
            f"{source.path} has the columns {' and '.join(twice)}, and each may deny a fact: make one column {NEGATED} "
            "of them"
        )
    says = next((kind for kind in (NEGATED, POLARITY) if kind in added), None)
    if says and source.labelled and label is not None:
        name = cells[added[says]]
        raise InputError(f"{source.path} has the columns {LABEL} and {name}: a label says both, leave out one")
    names = {name: place for name, place in found.names.items() if place not in added.values()}
    return replace(found, names=names | added)


def _chosen(source: TriplesFile, cells: Sequence[str]) -> list[int]:
    """Return the places of the columns that the user chooses by options."""
    wanted = {name for _, name in source.chosen.values()}
    return [place for place, cell in enumerate(cells) if wanted & {cell, str(place + 1)}]


def check_rows(source: TriplesFile, columns: Columns, table: pa.Table, can_choose: bool = True) -> None:
    """Raise InputError if the first block of rows shows that the columns are not what they seem.

    can_choose  whether the option --columns can say what the columns are

    The predicates are labels; or there is no header, but the first row looks like one: its cells look like words, none
    of them occurs again, and the predicates of the other rows do. With a known name at its place, few rows are enough,
    and with those of subject and object, any.
    """
    if source.columns or source.further or source.labelled is not None or not len(table):
        return
    first = [table[column][0].as_py() for column in COLUMNS]
    ends = (table[column] for column in ("subject", "object"))
    if columns.limits and all(pc.all(pc.match_substring_regex(column, LIMIT)).as_py() for column in ends):
        raise InputError(
            f"{source.path} has only numbers or dates, such as {first[0]}, as subjects and objects: --columns must "
            f"name three of {', '.join(columns.limits)}"
        )
    variables = (pc.sum(pc.match_substring_regex(table[column], r"^[?$]")).as_py() for column in COLUMNS)
    if not columns.header and all(cell[:1] in ("?", "$") for cell in first) and sum(variables) == len(COLUMNS):
        raise InputError(
            f"{source.path}, line 1: {', '.join(first)} are variables of SPARQL: save the triples as .nt (let the "
            "query CONSTRUCT them), or give --columns with the three variables in the order subject, predicate, "
            "object; or --columns 1,2,3 if the line is a triple"
        )
    iris = (pc.all(pc.match_substring_regex(table[column], r"^<\w+:.*>$")).as_py() for column in COLUMNS[:2])
    if all(iris) and pc.any(pc.starts_with(table["object"], '"')).as_py():
        raise InputError(
            f"{source.path} has RDF terms such as {table['subject'][0]}, and literals: save its triples as .nt (if a "
            "SPARQL query found them, let it CONSTRUCT triples), or give --columns to take all of them as names"
        )
    if columns.header:
        values = {text.lower() for text in table["predicate"].unique().to_pylist()} if columns.by_label else {""}
        if values <= MEANING.keys():
            raise InputError(
                f"{source.path} has no column predicate, and its column {LABEL} has labels: give --columns, or add a "
                "column predicate"
            )
        return
    rest, names = table.slice(1), [name.lstrip("#% ") for name in first]
    known = (
        2 if ends_of([column_word(name) for name in names if len(name) > 1]) else sum(map(is_column, names, COLUMNS))
    )
    repeated = max(1, FEWEST_FACTS * len(rest["predicate"].unique()))
    is_header = looks_like_header(names) or (known and all(map(WIDE_CELL.fullmatch, names)))
    if len(rest) < (max(FEWEST_ROWS, repeated), repeated, 1, 1)[known] or not is_header:
        return
    if not any(pc.any(pc.is_in(rest[column], pa.array([*names, *first]))).as_py() for column in COLUMNS):
        mend = (
            f"give --columns with the names of subject, predicate and object in this order, such as --columns "
            f"{','.join(in_order(first))}; or --columns 1,2,3 if the line is a triple"
        )
        raise InputError(
            f"{source.path}, line 1: {', '.join(names)} look like the names of the columns, because no other line has "
            f"one of them: {mend if can_choose else 'delete the line, or save the file as .tsv'}"
        )


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
        marked = cells[0].startswith("#")  # or a value, such as negative, may be in the first row
        further = [cell for n, cell in enumerate(cells) if n not in places and (marked or cell.lower() not in DENIED)]
        commented = marked and looks_like_header(
            [cells[place].removeprefix("# ") for place in places] + [cells[0].lstrip("# ")]
        )
        header = named or known or commented or any(map(denies, further))
        return header, len(cells), dict(zip(parts, places, strict=True))
    missing = [entry for entry in source.columns if entry not in cells]
    if missing:
        raise InputError(
            f"{source.path} has no column {', '.join(missing)}: --columns must name three of {', '.join(cells)}, or "
            "positions from 1"
        )
    return True, len(cells), {column: cells.index(entry) for column, entry in zip(parts, source.columns, strict=True)}


def _unread(source: TriplesFile, cells: Sequence[str], found: Columns) -> str:
    """Return part of a sentence about the columns that are not read; empty: all are.

    If the user chose the columns, only those are named that may say which facts are true; of a table without a header,
    those whose first value may say so.
    """
    places = [place for place in range(len(cells)) if place not in found.names.values()]
    if not found.header:  # of GPAD, a column is empty or has NOT
        says = [cell.lower() in ("", "not", "false", "true") or GO_RELATION.fullmatch(cell) for cell in cells]
        odd = [str(n + 1) for n in places if n < found.width and says[n]]
        return f"{first_of('column', odd)}, which may say which rows are true" if source.columns and odd else ""
    telling = VOIDING | (LIKE_LABELS if known_columns(cells) is None or not source.columns else set())
    others = [cells[place] for place in places if cells[place] not in PANDAS]
    others += [f"{cells[found.names[QUALIFIER]]} (but for NOT)"] if QUALIFIER in found.names else []
    others.sort(key=lambda cell: column_word(cell) not in telling)
    if source.columns:
        others = [cell for cell in others if column_word(cell) in telling]
    triple = ", ".join(cells[found.names[column]] for column in COLUMNS if column in found.names)
    parts = [f"{first_of('column', others)}, where {triple} are subject, predicate and object"] if others else []
    if types := types_of_ids(cells, found.names):
        parts.append(f"the types of its ids, {' and '.join(types)}, so that equal ids of two types are one entity")
    if spaces := id_spaces(cells):
        parts.append(f"the spaces of its ids, {' and '.join(spaces)}, so that equal ids of both are one entity")
    return "; ".join(parts)


def _refuse_missing(source: TriplesFile, cells: Sequence[str]) -> None:
    words = {column_word(cell) for cell in cells}
    missing = [column for column, names in NAMES.items() if not words.intersection(names)]
    instead = "" if source.further else f", or --columns must name three of {', '.join(cells)}"
    if missing == ["predicate"] and not source.further:
        instead += OF_ONE_KIND
    raise InputError(f"{source.path} has no column {', '.join(missing)}: it must have {', '.join(COLUMNS)}{instead}")


def _by_position(source: TriplesFile, cells: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Return width and positions of the columns of a table without names.

    The width is 4 if there must be or is a label. A table with another number of columns has faults, which name lines.
    """
    places = {column: place for place, column in enumerate(COLUMNS)}
    if source.further:
        if len(cells) < len(COLUMNS):
            least = f"it must have at least 3, {', '.join(COLUMNS)}"
            raise InputError(f"{source.path}, line 1: {len(cells)} columns: {least}")
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
    is_label = len(cells) > fourth and cells[fourth].lower() in MEANING and fourth not in _chosen(source, cells)
    return {LABEL: fourth} if is_label else {}


def _is_share(text: str) -> bool:
    """Return whether a value is a number between 0 and 1, and no label."""
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def _with_further(source: TriplesFile, cells: Sequence[str], found: Columns) -> Columns:
    """Add all other columns. A column without a name is `column_4`, by its position."""
    taken = set(found.names.values())
    others = [place for place in range(len(cells)) if place not in taken]
    names = [cells[place] if found.header else f"column_{place + 1}" for place in others]
    check_twice(source.path, [*found.names, *names])
    return replace(found, names=found.names | dict(zip(names, others, strict=True)))


def check_twice(path: Path, names: Sequence[str]) -> None:
    """Raise InputError if two columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{path} has the column {', '.join(twice)} twice: give every column its own name")
