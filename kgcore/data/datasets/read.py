"""Read all files of a data set as numbered rows. One message has the faults of all files, each with file and line.

Held-out rows with entities that training has not seen have no embedding, and `prepare` drops them. Evidence from names
can answer for them: kgcore/evidence/base.py. Such an entity has an id from E on, for E entities of train.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.arrays import Floats, Ints, Numbers, Small, taken
from kgcore.config.base import GROUP, TIME, SplitRule
from kgcore.data.datasets.base import NEGATIVES, PARTS, DatasetSpec
from kgcore.data.formats.base import (
    COLUMNS,
    CONFIDENCE,
    LABEL,
    Block,
    Doubt,
    TriplesFile,
    format_name,
    read_blocks,
)
from kgcore.data.formats.columns import MEANING
from kgcore.data.graph import SPLITS, KnowledgeGraph, Split
from kgcore.errors import InputError, raise_faults
from kgcore.registries import FORMATS, LAYOUTS

VOCABULARIES = ("entities", "predicates")  # roles of the files that map names to ids, if triples consist of ids
DEFAULT_LAYOUT = "openke"  # of declared data sets with vocabularies
MOST_COUNTED = 10_000  # the reading of a file ends after so many faults
PIECE = 2**22  # rows that are numbered at a time: 64 MB, which the system gets back (malloc keeps less than 32 MB)


class Numbering:
    """The names seen so far, each with a number: 0, 1, 2, ... by first appearance."""

    def __init__(self) -> None:
        self._names = pa.array([], pa.large_string())

    def encode(self, column: pa.ChunkedArray) -> Small:
        """Return the numbers (n,) of the names (n,), encoded as dictionaries. A name that is new gets the next number.

        It takes time for every name seen so far, so that a column is best a long one.
        """
        encoded = column.unify_dictionaries().combine_chunks()
        known = pa.concat_arrays([self._names, encoded.dictionary]).dictionary_encode()
        numbers = known.indices.to_numpy()[len(self._names) :]
        self._names = known.dictionary
        return taken(numbers, encoded.indices.to_numpy())

    @property
    def names(self) -> list[str]:
        """The names, by number."""
        names: list[str] = self._names.to_pylist()
        return names

    def sort(self) -> tuple[list[str], Small]:
        """Return the names in the order of their code points, and the place of each number in this order."""
        order = pc.sort_indices(self._names).to_numpy()
        places = np.empty(len(order), dtype=np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        return self._names.take(pa.array(order)).to_pylist(), places


@dataclass
class SplitRows:
    """The rows of a split as numbers, in the order of its files.

    labelled  whether the files have labels; None before the first block
    left_out  name of a count -> number of rows of the files that are left out
    unread    name of a file -> part of a sentence, which names its columns that are not read
    doubts    name of a file -> what is doubtful about it
    """

    labelled: bool | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    unread: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
    _waiting: list[pa.Table] = field(default_factory=list)
    _labels: list[Small] = field(default_factory=list)
    _pieces: list[Small] = field(default_factory=list)
    _starts: list[tuple[int, int, str, tuple[int, ...]]] = field(default_factory=list)
    _confidences: list[Floats] = field(default_factory=list)
    _times_or_groups: Numbering = field(default_factory=Numbering)
    _values: list[Small] = field(default_factory=list)
    _length: int = 0
    _numbered: int = 0

    def add(self, block: Block, entities: Numbering, predicates: Numbering, unit: str) -> None:
        """Add the rows of a block without faults. `unit` is what its numbers count: line, row or triple."""
        names = block.names
        self._labels.append(_labels(names[LABEL]) if LABEL in names.column_names else np.ones(len(names), np.int32))
        self._starts.append((self._length, block.first, unit, block.skipped))
        if CONFIDENCE in names.column_names:
            self._confidences.append(pd.to_numeric(names[CONFIDENCE].to_pandas()).to_numpy(np.float64))
        columns = [column for column in (*COLUMNS, TIME, GROUP) if column in names.column_names]
        texts = [names[column].cast(pa.large_string()).dictionary_encode() for column in columns]
        self._waiting.append(pa.table(texts, columns))
        self._length += len(names)
        self.left_out.update(block.left_out)
        self.labelled = bool(self.labelled) or LABEL in names.column_names
        if self._length - self._numbered >= PIECE:
            self.number(entities, predicates)

    def number(self, entities: Numbering, predicates: Numbering) -> None:
        """Replace the names of the rows that were added since the last call by numbers: an array (m, 4)."""
        if not self._waiting:
            return
        names = pa.concat_tables(self._waiting)
        self._waiting.clear()
        s, o = np.split(entities.encode(pa.chunked_array([*names["subject"].chunks, *names["object"].chunks])), 2)
        p, label = predicates.encode(names["predicate"]), np.concatenate(self._labels)
        self._labels.clear()
        self._pieces.append(np.stack([s, p, o, label], axis=1))
        for column in {TIME, GROUP}.intersection(names.column_names):
            self._values.append(self._times_or_groups.encode(names[column]))
        self._numbered = self._length

    def __len__(self) -> int:
        return self._length

    def place(self, row: int) -> str:
        """Return where a row is in its file: `line 17`."""
        start, number, unit, skipped = max(entry for entry in self._starts if entry[0] <= row)
        number += row - start
        for other in skipped:
            number += other <= number
        return f"{unit} {number}"

    @property
    def confidences(self) -> Floats:
        """The confidences (n,) of the rows, in [0, 1], if the files have them."""
        return np.concatenate(self._confidences)

    @property
    def values(self) -> tuple[Ints, list[str]]:
        """The distinct times or groups of the rows as text, and for each row (n,) which of them it has."""
        return np.concatenate(self._values).astype(np.int64), self._times_or_groups.names

    def numbers(self, entities: Small, predicates: Small) -> Small:
        """Return the rows (n, 4): subject, predicate, object, label (1 / 0). The pieces are then empty.

        entities, predicates  new numbers of the names, by their old ones
        """
        rows, start = np.empty((self._length, 4), dtype=np.int32), 0
        while self._pieces:
            piece = self._pieces.pop(0)
            here = rows[start : start + len(piece)]
            for column, places in enumerate((entities, predicates, entities)):
                here[:, column] = places[piece[:, column]]
            here[:, 3] = piece[:, 3]
            start += len(piece)
        return rows


def _labels(column: pa.ChunkedArray) -> Small:
    encoded = column.combine_chunks().dictionary_encode()
    meaning = np.array([MEANING[text.lower()] for text in encoded.dictionary.to_pylist()], dtype=np.int32)
    labels: Small = meaning[encoded.indices.to_numpy(zero_copy_only=False)]
    return labels


def frame_of(block: Block) -> pd.DataFrame:
    """Return the rows of a block as strings. The index is the number of the line."""
    frame: pd.DataFrame = block.names.to_pandas()
    return frame.set_index(block.numbers)


@dataclass(frozen=True)
class Read:
    """The rows of a data set's files.

    rows      role -> rows (n, 4): subject, predicate, object, label (1 / 0). The roles are the splits, and the
              negatives that have files of their own. Rows with confidences (n, 5) have their position among them, too
    places    role -> where its rows are in its files
    entities, predicates  the names that occur in any file, sorted. The rows have their positions
    confidences  the confidences that occur in any file, each once, increasing; None: the files have none
    """

    rows: dict[str, Numbers]
    places: dict[str, SplitRows]
    entities: list[str]
    predicates: list[str]
    confidences: Floats | None = None

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What is doubtful about the files."""
        return tuple(doubt for rows in self.places.values() for doubts in rows.doubts.values() for doubt in doubts)

    def frame(self, role: str, rows: Ints) -> pd.DataFrame:
        """Return the names of rows (n,) of a split. The index says where each is in its file: `line 17`."""
        numbers, places = self.rows[role][rows], self.places[role]
        names = (self.entities, self.predicates, self.entities)
        columns = {
            column: [names[place][number] for number in numbers[:, place]] for place, column in enumerate(COLUMNS)
        }
        return pd.DataFrame(columns, index=[places.place(int(row)) for row in rows], dtype="str")


def read_files(
    spec: DatasetSpec,
    folder: Path,
    columns: tuple[str, ...] = (),
    confidence: str = "",
    rule: SplitRule = SplitRule(),
) -> Read:
    """Read all files of the data set in `folder`.

    columns, confidence  the settings `columns` and `confidence`: see `TriplesFile`
    rule                 how the splits are drawn: the column of times or groups is read, too

    Raises InputError that lists the faults of all files, if there are any.
    """
    entities, predicates = Numbering(), Numbering()
    read = _reader(spec, folder)
    rows_by_role: dict[str, SplitRows] = {}
    faults: list[str] = []
    several = len(spec.files) > 1
    for role, file in spec.files.items():
        split = role.partition("+")[0]
        if split in VOCABULARIES:
            continue
        held_out = split in SPLITS[1:] and f"{split}{NEGATIVES}" not in spec.files
        either = spec.labelled is None and spec.layout == ""  # the file may have labels
        path, labelled = folder / file.path, None if either else bool(spec.labelled) and held_out
        times, groups = (rule.column if rule.kind == kind else "" for kind in (TIME, GROUP))
        scope = f"{file.path}#" if several else ""
        if confidence and split.endswith(NEGATIVES):
            faults.append(f"{path} has negatives by its name, and --confidence is given: leave out one of them")
        source = TriplesFile(path, columns, labelled, held_out, False, confidence, times, groups, scope)
        rows = rows_by_role.setdefault(split, SplitRows())
        try:
            faults += _add(rows, read(source), source, entities, predicates, spec.layout)
        except InputError as error:
            faults.append(str(error))
    empty = [spec.files[role].path for role, rows in rows_by_role.items() if not len(rows) and not faults]
    faults += [f"{folder / path} has no triples: it must have at least one" for path in empty]
    raise_faults(faults or _label_faults(spec, folder, rows_by_role))
    for rows in rows_by_role.values():
        rows.number(entities, predicates)
    entity_names, entity_places = entities.sort()
    predicate_names, predicate_places = predicates.sort()
    del entities, predicates
    pa.default_memory_pool().release_unused()  # memory of the blocks and the names
    numbered = {role: rows.numbers(entity_places, predicate_places) for role, rows in rows_by_role.items()}
    confidences = None
    if confidence:  # each row gets the position of its confidence
        confidences = np.unique(np.concatenate([rows.confidences for rows in rows_by_role.values()]))
        for role, rows in rows_by_role.items():
            numbered[role] = np.c_[numbered[role], np.searchsorted(confidences, rows.confidences)]
    read_all = Read(numbered, rows_by_role, entity_names, predicate_names, confidences)
    raise_faults(_training_faults(spec, folder, read_all))
    return read_all


def format_modules(spec: DatasetSpec) -> list[str]:
    """Return the modules of the formats and layouts that a data set's files have."""
    if set(VOCABULARIES) <= set(spec.files):
        return [LAYOUTS.module(spec.layout or DEFAULT_LAYOUT)]
    names = {format_name(Path(file.path)) for file in spec.files.values()}
    return sorted(FORMATS.module(name) for name in names if name)


def _reader(spec: DatasetSpec, folder: Path) -> Callable[[TriplesFile], Iterator[Block]]:
    """Return the function that yields the blocks of a file of triples."""
    if not set(VOCABULARIES) <= set(spec.files):
        return read_blocks
    layout = LAYOUTS.get(spec.layout or DEFAULT_LAYOUT)
    entities, predicates = (layout.vocabulary(folder / spec.files[role].path) for role in VOCABULARIES)
    return lambda source: layout.read(source, entities, predicates)


def _add(
    rows: SplitRows,
    blocks: Iterator[Block],
    source: TriplesFile,
    entities: Numbering,
    predicates: Numbering,
    layout: str,
) -> list[str]:
    """Add the blocks of a file to the rows of its split, and return the faults of the file."""
    from kgcore.data.datasets.schema import validate

    kind = "" if layout else format_name(source.path)
    unit = FORMATS.get(kind).unit if kind else "line"
    faults: list[str] = []
    before, left_out = len(rows), rows.left_out.copy()
    for block in blocks:
        wrong = [*block.faults]
        if unit != "triple":  # an RDF parser has checked the names
            wrong += validate(frame_of(block), source.path, unit)
        faults += wrong
        if len(faults) > MOST_COUNTED:
            break
        if not faults:
            rows.add(block, entities, predicates, unit)
            rows.unread[source.path.name] = block.unread
            rows.doubts[source.path.name] = block.doubts
    if not faults and len(rows) == before and not PARTS.fullmatch(source.path.name):
        words = {name: name.removeprefix("triples_").replace("_", " ") for name in rows.left_out}
        only = "".join(f" but {count:,} {words[name]}" for name, count in (rows.left_out - left_out).items())
        mend = "it must have at least one"
        if "triples_about_triples" in words:
            mend = (
                "write the facts that they describe as a .tsv, with the columns subject, predicate, object and negated"
            )
        faults.append(f"{source.path} has no triples{only}: {mend}")
    return faults


def _label_faults(spec: DatasetSpec, folder: Path, found: dict[str, SplitRows]) -> list[str]:
    """Return a fault if only one of valid and test has labels, or if the files of one split differ."""
    splits = [split for split in SPLITS[1:] if split in found]
    roles = [role if (role := f"{split}{NEGATIVES}") in found else split for split in splits]
    has = {role: role not in splits or bool(found[role].labelled) for role in roles}
    if spec.labelled is None and len(set(has.values())) > 1:
        [with_labels], [other] = (
            [role for role, labelled in has.items() if labelled is wanted] for wanted in (True, False)
        )
        return [
            f"{folder / spec.files[with_labels].path} has labels, and {folder / spec.files[other].path} has none: both "
            "must have labels, or neither"
        ]
    return []


def _training_faults(spec: DatasetSpec, folder: Path, read: Read) -> list[str]:
    """Return the faults of a training split that has negatives although valid and test have files."""
    if "valid" not in spec.files:
        return []
    wrong = (read.rows["train"][:, 3] == 0).nonzero()[0]
    where = folder / spec.files["train"].path
    return [
        f"{where}, {read.places['train'].place(int(row))}: the label is false: train must have true triples only"
        for row in wrong[:MOST_COUNTED]
    ]


@dataclass(frozen=True)
class UnseenRows:
    """Held-out triples with at least one entity that training lacks.

    names   names of these entities, sorted: names[i] has the id E + i
    splits  valid and test -> their distinct rows with such an entity, in the order of their ids
    """

    names: tuple[str, ...]
    splits: Mapping[str, Split]


def unseen_rows(read: Read, graph: KnowledgeGraph) -> UnseenRows:
    """Return the rows of valid and test with an entity that training lacks. Predicates that it lacks are left out.

    read  the rows of the files that the graph was made from. Confidences of the rows are left out
    """
    predicates = _positions(read.predicates, graph.predicates)
    entities = _positions(read.entities, graph.entities)
    rows = {name: _rows(read, name) for name in SPLITS[1:]}
    parts = {}
    for name, split_rows in rows.items():
        known = (entities[split_rows[:, [0, 2]]] >= 0).all(axis=1)
        parts[name] = split_rows[~known & (predicates[split_rows[:, 1]] >= 0)]
    held_out = np.concatenate([split_rows[:, [0, 2]].reshape(-1) for split_rows in parts.values()])
    new = np.unique(held_out[entities[held_out] < 0])
    entities[new] = len(graph.entities) + np.arange(len(new))
    splits = {}
    for name, split_rows in parts.items():
        triples = np.c_[
            entities[split_rows[:, 0]], predicates[split_rows[:, 1]], entities[split_rows[:, 2]], split_rows[:, 3]
        ]
        distinct = np.unique(triples, axis=0)
        splits[name] = Split(distinct[:, :3], distinct[:, 3].astype(np.float64))
    return UnseenRows(tuple(read.entities[number] for number in new.tolist()), splits)


def _positions(names: Sequence[str], known: Sequence[str]) -> Ints:
    """Return the position (n,) of each name in `known`; -1: it is not there."""
    places = {name: place for place, name in enumerate(known)}
    return np.fromiter((places.get(name, -1) for name in names), np.int64, len(names))


def _rows(read: Read, split: str) -> Ints:
    """Return the rows (n, 4) of a split, and of its file of negatives with the label 0."""
    rows = read.rows.get(split, np.zeros((0, 4), dtype=np.int64))[:, :4]
    false = read.rows.get(f"{split}{NEGATIVES}", rows[:0])[:, :4].copy()
    false[:, 3] = 0
    return np.concatenate([rows, false])
