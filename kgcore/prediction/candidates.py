"""Reads candidate triples from a file in any format, block by block, and lists of entity names."""

from collections.abc import Iterator
from pathlib import Path

from kgcore.datasets.formats.base import BLOCK_ROWS, COLUMNS, Block, TriplesFile
from kgcore.datasets.formats.files import check_readable, read_blocks
from kgcore.errors import InputError, raise_faults

__all__ = ["BLOCK_ROWS", "COLUMNS", "Block", "check_readable", "read_candidates"]


def read_candidates(path: Path) -> Iterator[Block]:
    """Read a file of candidate triples block by block.

    .tsv, .txt  columns separated by tabs, without quotes
    .csv        columns separated by commas, with quotes where they are needed
    .parquet    columns subject, predicate, object
    .nt, .ttl   RDF, and other formats of kgcore/datasets/formats

    If the first line of a text file names the columns, such as subject, predicate and object or head, relation and
    tail, the columns may have any order. Otherwise the first three columns are subject, predicate and object, and
    further columns are column_4, column_5, ... In the blocks, these three are text, come first and have the names
    subject, predicate and object. A block with faults ends the reading.

    Raises InputError for a file that is missing, empty, not UTF-8 or of another kind, for missing columns, and for
    lines with another number of columns than the first. The message has the file and the line.
    """
    for block in read_blocks(TriplesFile(path, further=True)):
        raise_faults(list(block.faults))
        yield block


def read_names(path: Path) -> list[str]:
    """Read a text file with one name per line. Empty lines and repeated names are left out.

    Raises InputError if the file cannot be read, has no name, is not UTF-8, or has a tab in a line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
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
