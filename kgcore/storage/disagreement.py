"""The disagreement of ensembles' members as a parquet table."""

from pathlib import Path

from kgcore.arrays import Floats, Triples
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_disagreement(path: Path, triples: Triples, columns: dict[str, Floats]) -> None:
    """Write s, p, o, and the disagreement of each ensemble's members, in nats."""
    write_table(path, spo_columns(triples) | columns)


def read_disagreement(path: Path) -> tuple[Triples, dict[str, Floats]]:
    """The triples (n, 3), and by ensemble the disagreement (n,), that `write_disagreement` wrote."""
    table, _ = read_table(path)
    return triples_of(table), {name: column for name, column in table.items() if name not in ("s", "p", "o")}
