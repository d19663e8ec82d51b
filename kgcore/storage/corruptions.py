"""The corruptions of the held-out splits as one parquet table."""

from pathlib import Path

import numpy as np

from kgcore.corruptions.base import Corruptions
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_corruptions(path: Path, made: dict[str, Corruptions]) -> None:
    """Write the corruptions of all splits as one table with the columns s, p, o, source, split.

    made  split -> its corruptions
    """
    columns = spo_columns(np.concatenate([c.triples for c in made.values()]))
    columns["source"] = np.concatenate([c.source for c in made.values()])
    columns["split"] = np.repeat(list(made), [len(c.triples) for c in made.values()])
    counts = {name: {split: getattr(c, name) for split, c in made.items()} for name in ("dropped", "fallbacks")}
    write_table(path, columns, counts)


def read_corruptions(path: Path) -> dict[str, Corruptions]:
    """Read the output of `write_corruptions`: split -> corruptions."""
    table, metadata = read_table(path)
    triples, made = triples_of(table), {}
    for split, dropped in metadata["dropped"].items():
        own, fallbacks = table["split"] == split, metadata.get("fallbacks", {}).get(split, 0)
        made[split] = Corruptions(triples[own], table["source"][own], dropped, fallbacks)
    return made
