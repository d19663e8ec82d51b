"""Files of scores for tests."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from kgcore.config import ScoresConfig
from kgcore.scores.table import ScoreTable
from kgcore.wings.external.calibrator import scorer_fingerprint
from kgcore.wings.external.rows import ScoreFile, read_scores, table_of_rows


def table_of_scores(rng: np.random.Generator, n: int = 600) -> pa.Table:
    """Return n rows with the columns f, y, w and r: scores with ties, labels 1 and 0, weights, three relations."""
    y = (rng.random(n) < 0.3).astype(np.int64)
    f = np.round(rng.normal(size=n) + 1.5 * y, 2)
    relations = np.array(["likes", "owns", "ö"])[rng.integers(0, 3, n)]
    return pa.table({"r": relations, "f": f, "y": y, "w": np.round(rng.uniform(0.5, 3, n), 3)})


def written(folder: Path, name: str, table: pa.Table) -> Path:
    """Write a table as Parquet, CSV or TSV."""
    path = folder / name
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        rows = [table.column_names, *([str(value) for value in row.values()] for row in table.to_pylist())]
        path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def config_of(**settings: object) -> ScoresConfig:
    """Return settings for `table_of_scores`."""
    return ScoresConfig(**({"score": "f", "label": "y"} | settings))


def rows_of(
    scores: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None = None, **further: Any
) -> ScoreTable:
    """Return labelled rows of the scorer `f` as a score table."""
    weighted = None if weights is None else np.asarray(weights, dtype=np.float64)
    labels = np.asarray(positive, dtype=np.float64)
    model = scorer_fingerprint("f", "any")
    return table_of_rows(np.asarray(scores, dtype=np.float64), labels, weights=weighted, model=model, **further)


def read(folder: Path, table: pa.Table, name: str = "s.csv", **settings: object) -> ScoreFile:
    """Write a table, and read it as labelled scores."""
    return read_scores(written(folder, name, table), config_of(**settings))
