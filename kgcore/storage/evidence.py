"""The evidence of a score table, and the log-odds that combiners give to rows that they have not seen."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kgcore.arrays import Scores
from kgcore.evidence.table import Evidence, TableEvidence
from kgcore.storage.tables import read_table, write_table


def write_evidence(path: Path, table: TableEvidence) -> None:
    """Write the column row and a column for each feature."""
    names, values = table.evidence.names, table.evidence.values
    columns = {"row": table.rows} | {name: values[:, number] for number, name in enumerate(names)}
    write_table(path, columns, {"groups": list(table.groups), "others": list(table.others)})


def read_evidence(path: Path) -> TableEvidence:
    """Read the output of `write_evidence`."""
    columns, metadata = read_table(path)
    rows = columns.pop("row").astype(np.int64)
    values = np.stack([column.astype(np.float32) for column in columns.values()], axis=1)
    others = tuple(metadata.get("others", ()))
    return TableEvidence(rows, Evidence(tuple(columns), values), tuple(metadata["groups"]), others)


def write_log_odds(path: Path, found: Mapping[str, Scores]) -> None:
    """Write one column (n,) of log-odds for each label of a calibrator."""
    write_table(path, dict(found))


def read_log_odds(path: Path) -> Mapping[str, Scores]:
    """Read the output of `write_log_odds`."""
    return read_table(path)[0]
