"""The disagreement of ensembles' members as a parquet table."""

from pathlib import Path

from kgcore.arrays import Floats, Triples
from kgcore.storage.tables import spo_columns, write_table


def write_disagreement(path: Path, triples: Triples, columns: dict[str, Floats]) -> None:
    """Write s, p, o, and the disagreement of each ensemble's members, in nats."""
    write_table(path, spo_columns(triples) | columns)
