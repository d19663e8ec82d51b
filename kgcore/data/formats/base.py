"""What a reader of a format takes and returns; files that are opened, unpacked, and read in their format."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from kgcore.arrays import Bools, Ints
from kgcore.config.base import GROUP, TIME
from kgcore.errors import InputError, KgcalWarning, first_line, raise_faults
from kgcore.registries import FORMATS

COLUMNS = ("subject", "predicate", "object")
LABEL = "label"
CONFIDENCE = "confidence"
NEGATED = "negated"
POLARITY = "polarity"  # a column of text mining
QUALIFIER = "qualifier"  # a column of Gene Ontology, whose word NOT negates the fact
# an item NOT, or NOT before a relation such as involved_in. It is no NOT gate
RELATIONS = r"(?:enables|involved|part|located|acts|contributes|colocalizes|is|active|has)(?![a-z])"
DENIES = re.compile(rf"""(?:^|[|,;]|\[")\s*(?:NOT(?=[_:]| \w+_\w)|(?i:not(?:[ _:]*{RELATIONS}|\s*(?=$|[|,;"]))))""")
GO_RELATION = re.compile(rf"(?:NOT\|)?{RELATIONS}\w*", re.IGNORECASE)  # a qualifier of Gene Ontology
DENIED = {"true", "1", "1.0", "yes", "not", "negative", "t", "y", "negated", "refuted"}
AFFIRMED = {"", "-", "false", "0", "0.0", "no", "null", "none", "nan", "positive", "f", "n", "affirmed", "asserted"}
# column -> what it says, in lower case: the fact does not hold, or holds; and what it must be
NEGATIONS = {
    NEGATED: (DENIED, AFFIRMED, "true, false or empty"),
    POLARITY: (
        {"negative", "neg", "-", "-1", "-1.0", "negated"},
        {"", "null", "none", "nan", "positive", "pos", "+", "1", "1.0", "affirmed"},
        "positive or negative, + or -, 1 or -1, or empty",
    ),
    QUALIFIER: ({"not"}, {""}, ""),
}
NEO4J = re.compile(r"(?:[^:]*:)?(START_ID|END_ID|TYPE)(?:\((.*)\))?")  # (...): the space of the ids
TYPED = re.compile(r"(.+):(?:string|str|text|int|integer|long|float|double|bool|boolean|date|datetime)", re.IGNORECASE)
BLOCK_ROWS = 2**18  # rows per block of a format that is not text
PACKED = {".bz2": "bz2", ".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
MOST_NAMED = 5  # columns or files that a sentence names
# how a file begins -> what it is, the endings that its name may have, and what to do if it has another one
SIGNS = {
    b"\x1f\x8b": ("packed by gzip", (".gz",), "let its name end in .gz"),
    b"BZh": ("packed by bzip2", (".bz2",), "let its name end in .bz2"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", (".zst", ".zstd"), "let its name end in .zst"),
    b"\xfd7zXZ\0": ("packed by xz", (), "unpack it"),
    b"7z\xbc\xaf": ("packed by 7-Zip", (), "unpack it"),
    b"Rar!\x1a": ("packed by RAR", (), "unpack it"),
    b"PK\3\4": ("a zip archive or a spreadsheet", (), "unpack it, or save the table as .csv"),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet", (), "save the table as .csv"),
    b"PAR1\x15": ("a Parquet table", (".parquet",), "let its name end in .parquet"),
    b"ARROW1\0": ("a Feather table", (), "save the table as .parquet"),
}
INSTEAD = {  # end of the name of a file that is not read -> how to get one that is
    **dict.fromkeys((".xz", ".zip", ".tar", ".tgz", ".tar.gz", ".7z", ".rar"), "unpack it, and name what is in it"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the table as .csv"),
    **dict.fromkeys((".graphml", ".gexf"), "export the table of edges as .csv"),
    **dict.fromkeys(
        (".gaf", ".gpad", ".gpa"),
        "save its columns with a first line of names, such as subject, qualifier, predicate, object, as .tsv",
    ),
    ".obo": "convert it to .owl, for example by ROBOT",
    ".json": "save one object a line as .jsonl, or JSON-LD as .jsonld",
}
COMMON = (".tsv", ".txt", ".csv", ".parquet")  # messages name these endings first


@dataclass(frozen=True)
class TriplesFile:
    """A file of triples, and what is known about its columns.

    columns   names or positions, from 1, of the columns with subject, predicate, object and, if there is a fourth
              entry, label. Empty: the columns are found by their names, or by their positions
    labelled  True: the file must have labels. False: it must not. None: it may
    held_out  whether the file is a validation or test split. A fourth column without a name is then a label, whatever
              its first value
    further   whether the table may have any number of other columns, and the blocks keep them
    confidence  name or position, from 1, of the column of confidences, which the table then must have; empty: none
    times, groups  the same of the column of times, or of groups, by which the triples are split
    scope     what the names of its blank nodes begin with, so that files do not share them; empty: it is the only file
    """

    path: Path
    columns: tuple[str, ...] = ()
    labelled: bool | None = None
    held_out: bool = False
    further: bool = False
    confidence: str = ""
    times: str = ""
    groups: str = ""
    scope: str = ""

    @property
    def chosen(self) -> dict[str, tuple[str, str]]:
        """The further columns that the user chooses: name in a block -> the option, and the column that it names."""
        options = {
            CONFIDENCE: ("--confidence ", self.confidence),
            TIME: ("--split time:", self.times),
            GROUP: ("--split group:", self.groups),
        }
        return {name: option for name, option in options.items() if option[1]}

    @property
    def first_option(self) -> str:
        """The first option that names a column, for a format that has no columns to choose; empty: no option does."""
        return "--columns" if self.columns else next((option.strip() for option, _ in self.chosen.values()), "")


class Doubt(NamedTuple):
    """What a reader found in a file that may make facts of other statements: a title, a figure, and what to do."""

    title: str
    figure: str
    meaning: str


@dataclass(frozen=True)
class Block:
    """Some rows of a file.

    names     the rows as text: the columns subject, predicate, object, then label, negated, confidence, time or group
              if there is one, then further columns
    done      the part of the file that has been read so far, from 0 to 1
    first     number of the first line or row of the block in the file, from 1
    skipped   numbers of the lines with faults, which are not in `names`
    faults    what is wrong with these lines, each a sentence with file and line
    left_out  name of a count -> number of rows that are left out of the block
    unread    part of a sentence, which names the columns that are not read; empty: all are
    doubts    what is doubtful about the file, from its begin to the end of the block
    """

    names: pa.Table
    done: float
    first: int = 1
    skipped: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    unread: str = ""
    doubts: tuple[Doubt, ...] = ()

    @property
    def numbers(self) -> Ints:
        """The numbers (n,) of the rows' lines in the file."""
        every = np.arange(self.first, self.first + len(self.names) + len(self.skipped))
        return np.setdiff1d(every, self.skipped, assume_unique=True) if self.skipped else every

    def without(self, rows: Bools, count: str) -> Self:
        """Return the block without the rows of a mask (n,), whose number becomes the count `count`."""
        if not rows.any():
            return self
        skipped = tuple(np.union1d(self.skipped, self.numbers[rows]).astype(np.int64).tolist())
        left_out = {**self.left_out, count: int(rows.sum())}
        return replace(self, names=self.names.filter(pa.array(~rows)), skipped=skipped, left_out=left_out)


@dataclass(frozen=True)
class Format:
    """A file format.

    title    what the format is called in messages and documentation
    endings  how a file's name ends, in lower case: `.nt`
    read     function that yields the blocks of a file. It raises InputError for a file that cannot be read
    unit     what the numbers of the blocks count: line, row or triple
    packed   whether such a file may be compressed by bzip2, gzip or zstd, and its name end in .bz2, .gz or .zst
    """

    title: str
    endings: tuple[str, ...]
    read: Callable[[TriplesFile], Iterator[Block]]
    unit: str = "line"
    packed: bool = True


@dataclass(frozen=True)
class Vocabulary:
    """The names of a data set's ids. `names` maps each id, as text from the file, to its name."""

    path: Path
    names: dict[str, str]

    @classmethod
    def of(cls, path: Path, rows: Iterable[tuple[int, str, str]], word: str, faults: Sequence[str] = ()) -> Self:
        """Make a vocabulary of rows: line, id and name. `word` is what the file calls a name.

        Raises InputError for these faults of the file, and if an id or a name is empty or occurs twice.
        """
        faults, names, seen = list(faults), dict[str, str](), set[str]()
        for line, number, name in rows:
            for what, value, known in ((word, name, seen), ("id", number, names)):
                if not value or value in known:
                    faults.append(f"{path}, line {line}: the {what} {f'{value} occurs twice' if value else 'is empty'}")
            names[number] = name
            seen.add(name)
        raise_faults(faults)
        return cls(path, names)


@dataclass(frozen=True)
class Layout:
    """A folder of files with fixed names, whose triples consist of ids.

    title       what the layout is called in messages and documentation
    find        function of a folder that returns role -> path of its files, or None for a folder of another kind. The
                roles entities and predicates are the vocabularies
    vocabulary  function that reads a file of names and ids
    read        function that yields the blocks of a file of triples, with names for ids. Its arguments are the file and
                the vocabularies of entities and predicates
    """

    title: str
    find: Callable[[Path], Mapping[str, str] | None]
    vocabulary: Callable[[Path], Vocabulary]
    read: Callable[[TriplesFile, Vocabulary, Vocabulary], Iterator[Block]]


def column_word(cell: str) -> str:
    """Return the name of a column without case, blanks, marks and type: `startid` for `:START_ID(Person)`."""
    neo4j = NEO4J.fullmatch(cell) or TYPED.fullmatch(cell)
    return re.sub(r"[\W_]", "", neo4j[1] if neo4j else cell).lower()


def first_of(word: str, names: Sequence[str]) -> str:
    """Return the first names as part of a sentence, and the number of the others: `the columns a, b`."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"the {word}{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMED])}{more}"


def endings() -> list[str]:
    """Return the endings of all formats. The common ones are first."""
    every = sorted(ending for name in FORMATS.names() for ending in FORMATS.get(name).endings)
    return sorted(every, key=lambda ending: COMMON.index(ending) if ending in COMMON else len(COMMON))


def stem_of(path: Path) -> str:
    """Return the name of a file without the endings of compression and format: `mine` for `mine.nt.gz`."""
    inner = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return inner.stem


def format_name(path: Path) -> str | None:
    """Return the registered name of a file's format, or None for an unknown ending."""
    packed = path.suffix.lower() in PACKED
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    for name in FORMATS.names():
        candidate = FORMATS.get(name)
        if ending in candidate.endings and (candidate.packed or not packed):
            return name
    return None


def format_of(path: Path) -> Format:
    """Return the format of a file. Raises InputError for an unknown ending."""
    name = format_name(path)
    if name is None:
        mend = next((f"; {how}" for ending, how in INSTEAD.items() if path.name.lower().endswith(ending)), "")
        raise InputError(
            f"{path} is of an unknown kind: its name must end in {', '.join(endings())}; .bz2, .gz or .zst may "
            f"follow, but not after .parquet{mend}"
        )
    return FORMATS.get(name)


def check_readable(path: Path) -> None:
    """Raise InputError if a file is of an unknown kind or cannot be opened."""
    format_of(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _check_sign(path: Path) -> None:
    """Raise InputError if a file begins as one that is packed, or a table, and its name says something else."""
    with path.open("rb") as file:
        head = file.read(10)
    sign = next((sign for sign in SIGNS if head.startswith(sign)), b"")
    what, known, mend = SIGNS.get(sign, ("", (path.suffix.lower(),), ""))
    if path.suffix.lower() not in known and (sign != b"BZh" or head[4:] == b"1AY&SY"):  # text may begin with BZh
        raise InputError(f"{path} is {what}: {mend}")


def read_blocks(source: TriplesFile) -> Iterator[Block]:
    """Yield the blocks of a file in any format, without negated facts. Raises InputError if it cannot be read."""
    try:
        unit = format_of(source.path).unit
        _check_sign(source.path)
        for block in format_of(source.path).read(source):
            for says in NEGATIONS if not source.further else ():
                block = _affirmed(source, block, unit, says) if says in block.names.column_names else block
            yield block
    except OSError as error:
        kind = PACKED.get(source.path.suffix.lower())
        if kind and not error.strerror:
            raise InputError(
                f"{source.path} is damaged, incomplete or not {kind} ({error}): compress it anew"
            ) from error
        raise InputError(f"{source.path} cannot be read: {error.strerror or first_line(error)}") from error


def _affirmed(source: TriplesFile, block: Block, unit: str, says: str) -> Block:
    """Return the block without negated facts, or with the label 0 for them if `columns` has the column of negations.

    says  the column of NEGATIONS that says it
    """
    texts = [text.strip() for text in block.names[says].to_pylist()]
    if says == QUALIFIER:
        texts = ["not" if DENIES.search(text) else "" for text in texts]
    texts = [text.lower() for text in texts]
    values = np.array(texts, dtype=object)
    denying, affirming, wanted = NEGATIONS[says]
    negated, affirmed = (np.isin(values, list(words)) for words in (denying, affirming))
    faults = [
        f"{source.path}, {unit} {block.numbers[row]}: {says} is {values[row]!r}: it must be {wanted}. If the column "
        "denies facts in other words, write these; if it says something else, give it another name"
        for row in np.flatnonzero(~negated & ~affirmed)
    ]
    names = block.names.drop_columns(says)
    if len(source.columns) > len(COLUMNS) and LABEL not in names.column_names:
        labels = pa.array(np.where(negated, "0", "1").astype(object), pa.string())
        names, negated = names.append_column(LABEL, labels), np.zeros_like(negated)
    return replace(block, names=names, faults=(*block.faults, *faults)).without(negated, "negated_rows")


@contextmanager
def open_packed(path: Path) -> Iterator[tuple[Any, IO[bytes]]]:
    """Open a file that may be compressed. Yield a stream of its unpacked bytes, and the file itself.

    The position of the file tells how much has been read. Raises OSError if the file cannot be opened.
    """
    with path.open("rb") as file:
        kind = PACKED.get(path.suffix.lower())
        if kind is None:
            yield file, file
        else:
            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), kind) as stream:
                yield stream, file


def read_candidates(path: Path) -> Iterator[Block]:
    """Read a file of candidate triples block by block.

    .tsv, .txt  columns separated by tabs, without quotes
    .csv        columns separated by commas, with quotes where they are needed
    .parquet    columns subject, predicate, object
    .nt, .ttl   RDF, and other formats of kgcore/data/formats

    If the first line of a text file names the columns, such as subject, predicate and object or head, relation and
    tail, the columns may have any order. Otherwise the first three columns are subject, predicate and object, and
    further columns are column_4, column_5, ... In the blocks, these three are text, come first and have the names
    subject, predicate and object. A block with faults ends the reading.

    Raises InputError for a file that is missing, empty, not UTF-8 or of another kind, for missing columns, and for
    lines with another number of columns than the first. The message has the file and the line.
    """
    left_out = Counter[str]()
    for block in read_blocks(TriplesFile(path, further=True)):
        raise_faults(list(block.faults))
        left_out.update(block.left_out)
        yield block
    for count, number in left_out.items():
        message = f"{path}: no answer for {count.replace('_', ' ')} ({number:,})"
        warnings.warn(message, KgcalWarning, stacklevel=2)


def read_names(path: Path) -> list[str]:
    """Read a text file with one name per line. Empty lines and repeated names are left out.

    Raises InputError if the file cannot be read, has no name, is not UTF-8, or has a tab in a line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save the file as UTF-8 text") from error
    for number, line in enumerate(lines, start=1):
        if "\t" in line:
            raise InputError(f"{path}, line {number}: the line has a tab: the file must have one name per line")
    names = list(dict.fromkeys(line for line in lines if line))
    if not names:
        raise InputError(f"{path} is empty: it must have one name per line")
    return names
