"""Triples as a parquet table."""

from pathlib import Path

from kgcore.arrays import Triples
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_triples(path: Path, triples: Triples) -> None:
    """Write the triples (n, 3) as the columns s, p and o."""
    write_table(path, spo_columns(triples))


def read_triples(path: Path) -> Triples:
    """Read the output of `write_triples`: triples (n, 3)."""
    return triples_of(read_table(path)[0])
