"""The columns of a block as numbers, codes and names. A wrong value is a fault with its file and line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.arrays import Floats, Ints
from kgcore.errors import InputError, raise_faults
from kgcore.external.tables import TableBlock

LABELS = {"1": 1, "true": 1, "0": 0, "-1": 0, "false": 0, "1.0": 1, "0.0": 0, "-1.0": 0}
SPLITS = {"train": 0, "valid": 1, "validation": 1, "dev": 1, "calibration": 1, "test": 2}
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Columns:
    """The columns of one block of a file.

    path   the file, for messages
    block  the rows
    """

    path: Path
    block: TableBlock

    def numbers(self, name: str, what: str, least: float = -np.inf) -> Floats:
        """Return a column as finite numbers (n,).

        what   what the column holds, for messages: score or weight
        least  smallest allowed number

        Raises InputError for a value that is missing, no number, not finite or too small.
        """
        column = self.block.table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        wanted = "a finite number" if least == -np.inf else f"a finite number of at least {least:g}"
        if is_text(column.type):
            column = pc.utf8_trim_whitespace(column)
        try:
            numbers: Floats = column.cast(pa.float64()).to_numpy()  # a missing value becomes NaN
        except pa.ArrowInvalid:
            wrong = np.flatnonzero(~pc.fill_null(pc.match_substring_regex(column, NUMBER), False).to_numpy())
            self._refuse(wrong, column, f"the {what} in the column {name}", wanted)
            raise
        except pa.ArrowNotImplementedError as error:
            found = f"the column {name} of {self.path} has the type {column.type}"
            raise InputError(f"{found}: a {what} must be a number") from error
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= least)))
        self._refuse(wrong, column, f"the {what} in the column {name}", wanted)
        return numbers

    def codes(self, name: str, what: str, meaning: Mapping[str, int]) -> Codes:
        """Return the codes (n,) of a column of words, in any case. Raises InputError for a word without a meaning."""
        distinct, places = _distinct(self.block.table[name])
        known = [meaning.get(str(value).strip().lower(), -1) for value in distinct]
        codes: Codes = np.array([*known, -1], dtype=np.int8)[places]
        *others, last = ["1", "0", "-1", "true", "false"] if meaning is LABELS else meaning
        wanted = f"{', '.join(others)} or {last}"
        self._refuse(np.flatnonzero(codes < 0), self.block.table[name], f"the {what} in the column {name}", wanted)
        return codes

    def names(self, name: str, known: dict[str, int], new: int | None = None) -> Ints:
        """Return the numbers (n,) of the names in a column.

        known  name -> its number. Without `new`, unknown names are added to it
        new    number of every unknown name; None: each gets the next number
        """
        distinct, places = _distinct(self.block.table[name])
        texts = ["" if value is None else str(value) for value in distinct]
        if new is None:
            numbers = [known.setdefault(text, len(known)) for text in texts]
            missing = known.setdefault("", len(known)) if (places == len(texts)).any() else -1
        else:
            numbers, missing = [known.get(text, new) for text in texts], known.get("", new)
        found: Ints = np.array([*numbers, missing], dtype=np.int64)[places]
        return found

    def _refuse(self, wrong: Ints, column: pa.ChunkedArray, what: str, wanted: str) -> None:
        """Raise InputError if there are wrong rows (m,). A line number counts every row as one line."""
        faults = []
        for row in wrong.tolist():
            value, place = column[row].as_py(), f"{self.path}, {self.block.unit} {self.block.first + row}"
            found = "is empty" if value is None or value == "" else f"is {value!r}"
            faults.append(f"{place}: {what} {found}: it must be {wanted}")
        raise_faults(faults)


def is_text(kind: pa.DataType) -> bool:
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
