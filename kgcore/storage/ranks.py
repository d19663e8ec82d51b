"""Filtered ranks as a parquet table."""

from pathlib import Path

import numpy as np

from kgcore.arrays import Floats, Triples
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_ranks(path: Path, triples: Triples, ranks: Floats) -> None:
    """Write the columns s, p, o, subject_rank and object_rank. `ranks` is (n, 2), the subject first."""
    write_table(path, spo_columns(triples) | {"subject_rank": ranks[:, 0], "object_rank": ranks[:, 1]})


def read_ranks(path: Path) -> tuple[Triples, Floats]:
    """Read the output of `write_ranks`: the triples (n, 3) and their filtered ranks (n, 2), the subject first."""
    table, _ = read_table(path)
    return triples_of(table), np.stack([table["subject_rank"], table["object_rank"]], axis=1)
