"""Filtered ranks as a parquet table."""

from pathlib import Path

from kgcore.arrays import Floats, Triples
from kgcore.storage.tables import spo_columns, write_table


def write_ranks(path: Path, triples: Triples, ranks: Floats) -> None:
    """Write s, p, o, and the filtered ranks of the subject and the object."""
    write_table(path, spo_columns(triples) | {"subject_rank": ranks[:, 0], "object_rank": ranks[:, 1]})
