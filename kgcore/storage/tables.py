"""Parquet tables with columns for triples. The metadata of a file can hold further values as JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgcore.arrays import Triples


def spo_columns(triples: Triples) -> dict[str, Any]:
    """Split triples (n, 3) into the columns s, p and o."""
    return {"s": triples[:, 0], "p": triples[:, 1], "o": triples[:, 2]}


def triples_of(table: dict[str, Any]) -> Triples:
    """Join the columns s, p and o to triples (n, 3)."""
    return np.stack([table["s"], table["p"], table["o"]], axis=1).astype(np.int64, copy=False)


def write_table(path: Path, columns: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Write columns of equal length, and the metadata as JSON under the key `kgcal`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    pq.write_table(table.replace_schema_metadata({"kgcal": json.dumps(metadata or {})}), path)


def read_table(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the output of `write_table`: name -> column, and the metadata."""
    table = pq.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    for name, column in columns.items():
        if column.dtype == object:
            columns[name] = column.astype(str)
    return columns, json.loads((table.schema.metadata or {}).get(b"kgcal", b"{}"))
