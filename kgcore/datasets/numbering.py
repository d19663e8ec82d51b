"""Turn blocks of names into numbers, so that a large file is never in memory as text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.arrays import Floats, Ints
from kgcore.config.split import GROUP, TIME
from kgcore.datasets.formats.base import COLUMNS, CONFIDENCE, LABEL, Block
from kgcore.datasets.formats.columns import MEANING

Small = npt.NDArray[np.int32]


class Numbering:
    """The names seen so far, each with a number: 0, 1, 2, ... by first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def encode(self, column: pa.ChunkedArray) -> Small:
        """Return the numbers (n,) of the names (n,). A name that is new gets the next number."""
        encoded, known = column.combine_chunks().dictionary_encode(), self._numbers
        names = encoded.dictionary.to_pylist()
        numbers = np.fromiter((known.setdefault(name, len(known)) for name in names), np.int32, len(names))
        found: Small = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
        return found

    @property
    def names(self) -> list[str]:
        """The names, by number."""
        return list(self._numbers)

    def sort(self) -> tuple[list[str], Small]:
        """Return the names in the order of their code points, and the place of each number in this order."""
        names = pa.array(self._numbers, pa.string())
        order = pc.sort_indices(names).to_numpy()
        places = np.empty(len(order), dtype=np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        return names.take(pa.array(order)).to_pylist(), places


@dataclass
class Rows:
    """The rows of a split as numbers, in the order of its files.

    labelled  whether the files have labels; None before the first block
    literals  number of RDF triples left out, because their object is a literal
    """

    labelled: bool | None = None
    literals: int = 0
    _parts: list[Small] = field(default_factory=list)
    _starts: list[tuple[int, int, str]] = field(default_factory=list)
    _confidences: list[Floats] = field(default_factory=list)
    _times_or_groups: Numbering = field(default_factory=Numbering)
    _values: list[Small] = field(default_factory=list)
    _length: int = 0

    def add(self, block: Block, entities: Numbering, predicates: Numbering, unit: str) -> None:
        """Add the rows of a block without faults. `unit` is what its numbers count: line, row or triple."""
        names = block.names
        numbers = [
            numbering.encode(names[column])
            for column, numbering in zip(COLUMNS, (entities, predicates, entities), strict=True)
        ]
        label = _labels(names[LABEL]) if LABEL in names.column_names else np.ones(len(names), dtype=np.int32)
        self._starts.append((self._length, block.first, unit))
        self._parts.append(np.stack([*numbers, label], axis=1))
        if CONFIDENCE in names.column_names:
            self._confidences.append(pd.to_numeric(names[CONFIDENCE].to_pandas()).to_numpy(np.float64))
        for column in {TIME, GROUP}.intersection(names.column_names):
            self._values.append(self._times_or_groups.encode(names[column]))
        self._length += len(names)
        self.literals += block.literals
        self.labelled = bool(self.labelled) or LABEL in names.column_names

    def __len__(self) -> int:
        return self._length

    def place(self, row: int) -> str:
        """Return where a row is in its file: `line 17`."""
        start, first, unit = max(entry for entry in self._starts if entry[0] <= row)
        return f"{unit} {first + row - start}"

    @property
    def confidences(self) -> Floats | None:
        """The confidences (n,) of the rows, in [0, 1]; None: the files have none."""
        return np.concatenate(self._confidences) if self._confidences else None

    @property
    def values(self) -> tuple[Ints, list[str]]:
        """The distinct times or groups of the rows as text, and for each row (n,) which of them it has."""
        return np.concatenate(self._values).astype(np.int64), self._times_or_groups.names

    def numbers(self, entities: Small, predicates: Small) -> Ints:
        """Return the rows (n, 4): subject, predicate, object, label (1 / 0). The blocks are then empty.

        entities, predicates  new numbers of the names, by their old ones
        """
        rows = np.empty((self._length, 4), dtype=np.int64)
        start = 0
        while self._parts:
            part = self._parts.pop(0)
            here = rows[start : start + len(part)]
            for column, places in ((0, entities), (1, predicates), (2, entities)):
                here[:, column] = places[part[:, column]]
            here[:, 3] = part[:, 3]
            start += len(part)
        return rows


def _labels(column: pa.ChunkedArray) -> Small:
    encoded = column.combine_chunks().dictionary_encode()
    meaning = np.array([MEANING[text.lower()] for text in encoded.dictionary.to_pylist()], dtype=np.int32)
    found: Small = meaning[encoded.indices.to_numpy(zero_copy_only=False)]
    return found


def frame_of(block: Block) -> pd.DataFrame:
    """Return the rows of a block as strings. The index is the number of the line."""
    frame: pd.DataFrame = block.names.to_pandas()
    return frame.set_index(block.numbers)


def triples_frame(blocks: Iterable[Block], columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of all blocks as strings. The index is the number of the line."""
    return pd.concat([frame_of(block) for block in blocks] or [pd.DataFrame(columns=list(columns), dtype="str")])
