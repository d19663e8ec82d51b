"""Reads a table with a header, block by block, so that a file may be larger than the memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from kgcore.datasets.formats.base import BLOCK_ROWS
from kgcore.datasets.formats.columns import Columns, check_twice
from kgcore.datasets.formats.files import PACKED
from kgcore.datasets.formats.text import COMMAS, TABS, read_lines
from kgcore.errors import InputError, raise_faults

STYLES = {".tsv": TABS, ".txt": TABS, ".csv": COMMAS}
ENDINGS = (*STYLES, ".parquet")


@dataclass(frozen=True)
class TableBlock:
    """Some rows of a file.

    table  the rows. All values of a text file are strings; a Parquet file keeps its types
    first  number of the first row: the line of a text file, the row of a Parquet file, both from 1
    done   the part of the file that has been read so far, from 0 to 1
    unit   what `first` counts: line or row
    """

    table: pa.Table
    first: int
    done: float
    unit: str


def check_table(path: Path) -> None:
    """Raise InputError if a file is of an unknown kind or cannot be opened."""
    if _ending(path) not in ENDINGS:
        raise InputError(
            f"{path} is of an unknown kind: its name must end in {', '.join(ENDINGS)}; .gz or .zst may follow, but not "
            "after .parquet"
        )
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def read_table(path: Path, wanted: Mapping[str, str], all_columns: bool = True) -> Iterator[TableBlock]:
    """Yield the blocks of a file with a header: .tsv, .txt, .csv (also with .gz or .zst) or .parquet.

    wanted       option -> name of the column that the file must have; '' if the option is not given
    all_columns  if false, other columns of a Parquet file are not read

    Raises InputError for a file that is missing, empty, not UTF-8 or of another kind, for a missing column, for two
    columns of the same name, and for lines with another number of columns than the first. The message has the file and
    the line.
    """
    check_table(path)
    required = list(dict.fromkeys(name for name in wanted.values() if name))

    def find(head: list[str]) -> Columns:
        names = [name.strip() for name in head]
        check_columns(path, names, wanted)
        check_twice(path, names)
        return Columns(True, len(names), {name: place for place, name in enumerate(names)})

    try:
        if _ending(path) == ".parquet":
            with pa.parquet.ParquetFile(path) as file:
                find(file.schema_arrow.names)
                done, rows = 0, max(file.metadata.num_rows, 1)
                for batch in file.iter_batches(BLOCK_ROWS, columns=None if all_columns else required):
                    first, done = done + 1, done + len(batch)
                    yield TableBlock(pa.table(batch), first, done / rows, "row")
            return
        for block in read_lines(path, STYLES[_ending(path)], find, required):
            raise_faults(list(block.faults))
            yield TableBlock(block.names, block.first, block.done, "line")
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def check_columns(path: Path, names: list[str], wanted: Mapping[str, str]) -> None:
    """Raise InputError if a file has not the columns that the options name.

    wanted  option, such as --score -> name of the column; '' if the option is not given
    """
    for option, name in wanted.items():
        if name and name not in names:
            raise InputError(
                f"{path} has no column {name}: its columns are {', '.join(names)}; name another one with {option}"
            )


def _ending(path: Path) -> str:
    """Return the ending of a file's name in lower case, without that of compression."""
    packed = path.suffix.lower() in PACKED
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    return "" if packed and ending == ".parquet" else ending
