"""The disagreement of ensembles' members as a parquet table."""

from pathlib import Path

from kgcore.arrays import Floats, Triples
from kgcore.storage.tables import spo_columns, write_table


def write_disagreement(path: Path, triples: Triples, columns: dict[str, Floats]) -> None:
    """s, p, o, and how far the members of each ensemble are apart, in nats."""
    write_table(path, spo_columns(triples) | columns)
