"""What a reader of a format takes and returns."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgcore.arrays import Ints
from kgcore.config.split import GROUP, TIME

COLUMNS = ("subject", "predicate", "object")
LABEL = "label"
CONFIDENCE = "confidence"
BLOCK_ROWS = 2**18  # rows per block of a format that is not text


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
    """

    path: Path
    columns: tuple[str, ...] = ()
    labelled: bool | None = None
    held_out: bool = False
    further: bool = False
    confidence: str = ""
    times: str = ""
    groups: str = ""

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
        """The first option that names a column, for a format that has no columns to choose; empty: there is none."""
        return "--columns" if self.columns else next((option.strip() for option, _ in self.chosen.values()), "")


@dataclass(frozen=True)
class Block:
    """Some rows of a file.

    names     the rows as text: the columns subject, predicate, object, then label, confidence, time or group if there
              is one, then further columns
    done      the part of the file that has been read so far, from 0 to 1
    first     number of the first line or row of the block in the file, from 1
    skipped   numbers of the lines with faults, which are not in `names`
    faults    what is wrong with these lines, each a sentence with file and line
    literals  number of RDF triples left out of the block, because their object is a literal
    """

    names: pa.Table
    done: float
    first: int = 1
    skipped: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    literals: int = 0

    @property
    def numbers(self) -> Ints:
        """The numbers (n,) of the rows' lines in the file."""
        every = np.arange(self.first, self.first + len(self.names) + len(self.skipped))
        return np.setdiff1d(every, self.skipped, assume_unique=True) if self.skipped else every


@dataclass(frozen=True)
class Format:
    """A file format.

    title    what the format is called in messages and documentation
    endings  how a file's name ends, in lower case: `.nt`
    read     function that yields the blocks of a file. It raises InputError for a file that cannot be read
    unit     what the numbers of the blocks count: line, row or triple
    packed   whether such a file may be compressed by gzip or zstd, and its name end in .gz or .zst
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
