"""The folders of OpenKE and TransC: files of ids, each with a first line that says how many lines follow.

Of TransC's folders only the triples of instances are read; instanceOf2id.txt and subClassOf2id.txt, which name
concepts, are not.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from kgcore.data.formats.base import COLUMNS, Block, Layout, TriplesFile, Vocabulary
from kgcore.errors import InputError
from kgcore.registries import LAYOUTS

# The files that a folder must have, by role, and those that it may have.
OPENKE = {"entities": "entity2id.txt", "predicates": "relation2id.txt", "train": "train2id.txt"}
OPENKE_HELD_OUT = {"valid": "valid2id.txt", "test": "test2id.txt"}
TRANSC = {
    "entities": "Train/instance2id.txt",
    "predicates": "Train/relation2id.txt",
    "train": "Train/triple2id.txt",
}
TRANSC_HELD_OUT = {
    "valid": "Valid/triple2id_positive.txt",
    "valid_negatives": "Valid/triple2id_negative.txt",
    "test": "Test/triple2id_positive.txt",
    "test_negatives": "Test/triple2id_negative.txt",
}


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the names and ids of a file. The first line is a count, and every other line is name, tab, id; or id, tab,
    name, if only the first column has the ids 0 to n - 1.

    Raises InputError, with file and line, if the count is wrong, if a line has a wrong number of columns, if an id or a
    name is empty or occurs twice, or if the names are other ids.
    """
    rows, faults = _read_counted(path, ("name", "id"), "\t")
    ids = columns_of_ids([row for _, row in rows])
    if len(ids) == 2 and any(name != number for _, (name, number) in rows):
        raise InputError(f"{path}: both columns have the numbers from 0: give each name a letter, so that it is no id")
    if ids == [0]:
        rows = [(line, [name, number]) for line, (number, name) in rows]
    return Vocabulary.of(path, ((line, number, name) for line, (name, number) in rows), "name", faults)


def columns_of_ids(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return which of the two columns of some rows have each of the ids 0 to n - 1 once."""
    ids = {str(number) for number in range(len(rows))}
    return [column for column in (0, 1) if {row[column] for row in rows} == ids]


def read_numbered(source: TriplesFile, entities: Vocabulary, predicates: Vocabulary) -> Iterator[Block]:
    """Yield one block with the names of a file of triples of ids.

    The first line is a count, and every other line is subject, object, predicate, separated by white space. A line with
    an unknown id is a fault.

    Raises InputError if the file is missing, empty or not UTF-8, or if `columns` is set.
    """
    path = source.path
    if option := source.first_option:
        raise InputError(f"{path} has the columns subject, object, predicate by its layout: leave out {option}")
    rows, faults = _read_counted(path, ("subject", "object", "predicate"), None)
    skipped = set(range(2, rows[-1][0] + 1 if rows else 2)) - {line for line, _ in rows}
    triples = []
    for line, (s, o, p) in rows:
        parts = (("subject", s, entities), ("object", o, entities), ("predicate", p, predicates))
        unknown = [
            f"{path}, line {line}: {word} {number} is not in {vocabulary.path.name}"
            for word, number, vocabulary in parts
            if number not in vocabulary.names
        ]
        faults += unknown
        if unknown:
            skipped.add(line)
        else:
            triples.append((entities.names[s], predicates.names[p], entities.names[o]))
    columns = [pa.array([row[place] for row in triples], pa.string()) for place in range(3)]
    yield Block(pa.table(columns, names=COLUMNS), 1.0, 2, tuple(sorted(skipped)), tuple(faults))


def _read_counted(
    path: Path, columns: tuple[str, ...], separator: str | None
) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Return the lines without faults after the first one, as pairs of line number and fields, and the faults."""
    head, *lines = _read_text(path).rstrip().split("\n")
    faults = []
    if not head.strip().isdecimal() and len(head.split(separator)) == len(columns):
        faults.append(f"{path}, line 1: {head.strip()!r}: add a first line with {len(lines) + 1}, the number of lines")
    elif head.strip() != str(len(lines)):
        faults.append(f"{path}, line 1: {head.strip()!r}: it must be {len(lines)}, the number of lines after it")
    rows = []
    for line, text in enumerate(lines, start=2):
        fields = text.rstrip("\r").split(separator)
        if len(fields) == len(columns):
            rows.append((line, fields))
        else:
            faults.append(
                f"{path}, line {line}: {len(fields)} columns: it must have {len(columns)}, {', '.join(columns)}"
            )
    return rows, faults


def _read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError if the file is missing, not UTF-8, or empty."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not data.strip():
        raise InputError(f"{path} is empty: its first line must be the number of lines after it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8 text"
        ) from error


def _find(folder: Path, files: Mapping[str, str], held_out: Mapping[str, str]) -> dict[str, str] | None:
    """Return the files of a folder by role, or None if it lacks one of `files`."""
    if not all((folder / path).is_file() for path in files.values()):
        return None
    return {**files, **{role: path for role, path in held_out.items() if (folder / path).is_file()}}


_find_openke = partial(_find, files=OPENKE, held_out=OPENKE_HELD_OUT)
_find_transc = partial(_find, files=TRANSC, held_out=TRANSC_HELD_OUT)
LAYOUTS.add("openke", Layout("OpenKE", _find_openke, read_vocabulary, read_numbered))
LAYOUTS.add("transc", Layout("TransC", _find_transc, read_vocabulary, read_numbered))
