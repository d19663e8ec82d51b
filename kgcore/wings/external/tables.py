"""Reads a table with a header, block by block, so that a file may be larger than the memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.arrays import Floats, Ints
from kgcore.data.formats.base import COMMON, check_readable, format_name
from kgcore.data.formats.columns import MEANING, Columns, check_twice
from kgcore.data.formats.parquet import read_row_groups
from kgcore.data.formats.text import COMMAS, TABS, read_lines
from kgcore.errors import InputError, first_line, raise_faults

STYLES = {"tsv": TABS, "csv": COMMAS, "parquet": None}  # format of a table -> how the values of a line are separated
SPLITS = {"train": 0, "valid": 1, "validation": 1, "dev": 1, "calibration": 1, "test": 2}
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
LARGEST_WHOLE = 2**53  # from here on, float64 rounds whole numbers
CLIP = 1e-7  # probabilities are clipped to [CLIP, 1 - CLIP] before they become log-odds, as in the log loss
UNKNOWN = -1  # number of a relation without labelled rows
Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class TableBlock:
    """Some rows of a table, as numbers, codes and names. A wrong value is a fault with its place.

    source  the file, or what has the rows, for messages
    table   the rows. All values of a text file are strings; a Parquet file keeps its types
    unit    what `first` counts: line or row; '': the rows are a list in JSON
    first   number of the first row: the line of a text file, the row of a Parquet file, both from 1
    done    the part of the file that has been read so far, from 0 to 1
    """

    source: str
    table: pa.Table
    unit: str = "row"
    first: int = 1
    done: float = 1.0

    def scores(self, name: str, scale: str) -> Floats:
        """Return a column of scores (n,). If `scale` is `probability`, they are the log-odds of the column.

        Raises InputError for a value that is no finite number and, if `scale` is `probability`, is outside [0, 1].
        """
        scores = self.numbers(name, "score")
        if scale != "probability":
            return scores
        wrong = np.flatnonzero((scores < 0) | (scores > 1))
        self._refuse(wrong, self.table[name], f"the score in the column {name}", "in [0, 1], as a probability")
        return log_odds(scores)

    def numbers(self, name: str, what: str, least: float = -np.inf) -> Floats:
        """Return a column as finite numbers (n,).

        what   what the column holds, for messages: score or weight
        least  smallest allowed number

        Raises InputError for a value that is missing, no number, not finite or too small, and for a whole number that
        float64 would round.
        """
        column = self.table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        wanted = "a finite number" if least == -np.inf else f"a finite number of at least {least:g}"
        if _is_text(column.type):
            column = pc.utf8_trim_whitespace(column)
        whole = pa.types.is_integer(column.type)
        try:
            numbers: Floats = column.cast(pa.float64(), safe=not whole).to_numpy()  # a missing value becomes NaN
        except pa.ArrowInvalid:
            wrong = np.flatnonzero(~pc.fill_null(pc.match_substring_regex(column, NUMBER), False).to_numpy())
            self._refuse(wrong, column, f"the {what} in the column {name}", wanted)
            raise
        except pa.ArrowNotImplementedError as error:
            kind = f"the column {name} of {self.source} has the type {column.type}"
            raise InputError(f"{kind}: a {what} must be a number") from error
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= least)))
        self._refuse(wrong, column, f"the {what} in the column {name}", wanted)
        if whole:
            large = np.flatnonzero(np.abs(numbers) >= LARGEST_WHOLE)
            self._refuse(large, column, f"the {what} in the column {name}", f"below {LARGEST_WHOLE} in size")
        return numbers

    def codes(self, name: str, what: str, meaning: Mapping[str, int]) -> Codes:
        """Return the codes (n,) of a column of words, in any case. Raises InputError for a word without a meaning."""
        distinct, places = _distinct(self.table[name])
        known = [meaning.get(str(value).strip().lower(), -1) for value in distinct]
        codes: Codes = np.array([*known, -1], dtype=np.int8)[places]
        *others, last = ["1", "0", "-1", "true", "false"] if meaning is MEANING else meaning
        wanted = f"{', '.join(others)} or {last}"
        self._refuse(np.flatnonzero(codes < 0), self.table[name], f"the {what} in the column {name}", wanted)
        return codes

    def names(self, name: str, known: dict[str, int]) -> Ints:
        """Return the numbers (n,) of the names in a column. `known`, name -> its number, gets the new names."""
        distinct, places = _distinct(self.table[name])
        texts = ["" if value is None else str(value) for value in distinct]
        numbers = [known.setdefault(text, len(known)) for text in texts]
        missing = known.setdefault("", len(known)) if (places == len(texts)).any() else -1
        return np.array([*numbers, missing], dtype=np.int64)[places]

    def _refuse(self, wrong: Ints, column: pa.ChunkedArray, what: str, wanted: str) -> None:
        """Raise InputError if there are wrong rows (m,). A line number counts every row as one line."""
        faults = []
        for row in wrong.tolist():
            value, number = column[row].as_py(), self.first + row
            place = f"{self.source}, {self.unit} {number}" if self.unit else f"{self.source}[{number}]"
            is_wrong = "is empty" if value is None or value == "" else f"is {value!r}"
            faults.append(f"{place}: {what} {is_wrong}: it must be {wanted}")
        raise_faults(faults)


def log_odds(probabilities: Floats) -> Floats:
    """Return the log-odds (n,) of probabilities (n,) in [0, 1], clipped to [CLIP, 1 - CLIP]."""
    q = probabilities.clip(CLIP, 1 - CLIP)
    scores: Floats = np.log(q) - np.log1p(-q)
    return scores


def check_table(path: Path) -> None:
    """Raise InputError if a file is of an unknown kind or cannot be opened."""
    if format_name(path) not in STYLES:
        raise InputError(
            f"{path} is of an unknown kind: its name must end in {', '.join(COMMON)}; .bz2, .gz or .zst may "
            "follow, but not after .parquet"
        )
    check_readable(path)


def read_table(path: Path, wanted: Mapping[str, str], all_columns: bool = True) -> Iterator[TableBlock]:
    """Yield the blocks of a file with a header: .tsv, .txt, .csv (also with .bz2, .gz or .zst) or .parquet.

    wanted       option -> name of the column that the file must have; '' if the option is not given
    all_columns  whether the blocks have the other columns of the file

    Raises InputError for a file that is missing, empty, not UTF-8 or of another kind, for a missing column, for two
    columns of the same name, for lines with another number of columns than the first, and for a file without rows. The
    message has the file and the line.
    """
    check_table(path)
    style, is_empty = STYLES[str(format_name(path))], True
    required = [name for name in dict.fromkeys(wanted.values()) if name]

    def find(head: list[str]) -> Columns:
        names = [name.strip() for name in head]
        for option, name in wanted.items():
            if name and name not in names:
                have = ", ".join(names)
                raise InputError(f"{path} has no column {name}: its columns are {have}; name another one with {option}")
        check_twice(path, names)
        used = names if all_columns else required
        return Columns(True, len(names), {name: names.index(name) for name in used})

    try:
        for block in read_row_groups(path, find) if style is None else read_lines(path, style, find, required):
            raise_faults(list(block.faults))
            is_empty = is_empty and not len(block.names)
            yield TableBlock(str(path), block.names, "row" if style is None else "line", block.first, block.done)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or first_line(error)}") from error
    if is_empty:
        raise InputError(f"{path} has no rows after its header: it must have a row for each score")


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _distinct(column: pa.ChunkedArray) -> tuple[list[object], Ints]:
    """Return the distinct values of a column, and the place of each row's value among them (n,).

    The place of a missing value is the number of distinct values.
    """
    whole = column.combine_chunks()
    whole = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    places: Ints = pc.fill_null(whole.indices, len(whole.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole.dictionary.to_pylist(), places
