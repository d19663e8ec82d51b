"""A parquet table of triples with the disagreement of the members of each ensemble."""

from pathlib import Path

from kgcore.arrays import Floats, Triples
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_disagreement(path: Path, triples: Triples, columns: dict[str, Floats]) -> None:
    """Write the columns s, p, o, and for each ensemble a column with the disagreement of its members, in nats."""
    write_table(path, spo_columns(triples) | columns)


def read_disagreement(path: Path) -> tuple[Triples, dict[str, Floats]]:
    """Read the output of `write_disagreement`: the triples (n, 3), and ensemble -> disagreement (n,) in nats."""
    table, _ = read_table(path)
    return triples_of(table), {name: column for name, column in table.items() if name not in ("s", "p", "o")}
