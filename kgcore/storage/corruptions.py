"""The corruptions of the held-out splits as one parquet table."""

from pathlib import Path

import numpy as np

from kgcore.arrays import Floats
from kgcore.corruptions.base import Corruptions
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table

_COUNTS = ("dropped", "fallbacks", "redrawn")


def write_corruptions(path: Path, made: dict[str, Corruptions]) -> None:
    """Write the corruptions of all splits as one table with the columns s, p, o, source, split, and perhaps weight.

    The column weight exists if the corruptions of a split have weights. It is NaN for the others. The metadata has the
    hits above 0 of a split: the number of both sides' hits, their positions, and the hits.

    made  split -> its corruptions
    """
    columns = spo_columns(np.concatenate([c.triples for c in made.values()]))
    columns["source"] = np.concatenate([c.source for c in made.values()])
    columns["split"] = np.repeat(list(made), [len(c.triples) for c in made.values()])
    if any(c.weights is not None for c in made.values()):
        weights = [np.full(len(c.triples), np.nan) if c.weights is None else c.weights for c in made.values()]
        columns["weight"] = np.concatenate(weights)
    counts = {name: {split: getattr(c, name) for split, c in made.items()} for name in _COUNTS}
    hits = {split: c.hits for split, c in made.items() if c.hits is not None}
    write_table(path, columns, counts | {"hits_by_side": {split: _sparse(values) for split, values in hits.items()}})


def read_corruptions(path: Path) -> dict[str, Corruptions]:
    """Read the output of `write_corruptions`: split -> corruptions."""
    table, metadata = read_table(path)
    triples, made, stored = triples_of(table), {}, metadata["hits_by_side"]
    for split, dropped in metadata["dropped"].items():
        own = table["split"] == split
        fallbacks, redrawn = metadata["fallbacks"][split], metadata["redrawn"][split]
        weights = table["weight"][own] if "weight" in table else None
        weights = None if weights is None or np.isnan(weights).any() else weights
        hits = _dense(*stored[split]) if split in stored else None
        made[split] = Corruptions(triples[own], table["source"][own], dropped, fallbacks, redrawn, weights, hits)
    return made


def _sparse(values: Floats) -> tuple[int, list[int], list[float]]:
    flat = values.reshape(-1)
    rows = np.flatnonzero(flat)
    return len(flat), rows.tolist(), flat[rows].tolist()


def _dense(size: int, rows: list[int], hits: list[float]) -> Floats:
    values = np.zeros(size)
    values[rows] = hits
    return values.reshape(-1, 2)
