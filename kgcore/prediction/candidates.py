"""Reads candidate triples from a file in any format, block by block."""

from collections.abc import Iterator
from pathlib import Path

from kgcore.datasets.formats.base import BLOCK_ROWS, COLUMNS, Block, TriplesFile
from kgcore.datasets.formats.files import check_readable, read_blocks
from kgcore.errors import raise_faults

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
