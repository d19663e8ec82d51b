"""A calibrator of scores as a JSON file, and the rows that it was fitted on as a table."""

from pathlib import Path

import numpy as np

from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.rows import ScoreRows
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.names import SCORE_CALIBRATOR_FILE
from kgcore.storage.tables import read_table, write_table

MOST_ROWS = 1_000_000  # rows that are stored of a calibration; of more rows, equally many from every part of the scores


def write_score_calibrator(folder: Path, calibrator: ScoreCalibrator) -> None:
    """Write score_calibrator.json to the folder."""
    write_json(folder / SCORE_CALIBRATOR_FILE, calibrator.to_json())


def read_score_calibrator(folder: Path) -> ScoreCalibrator:
    """Read the output of `write_score_calibrator`."""
    return ScoreCalibrator.from_json(read_json(folder / SCORE_CALIBRATOR_FILE))


def write_score_rows(path: Path, rows: ScoreRows) -> None:
    """Write at most MOST_ROWS rows, which are in order, as a Parquet table."""
    if len(rows) > MOST_ROWS:
        rows = rows.part(np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.int64))
    columns = {"score": rows.scores, "label": rows.positive, "weight": rows.weights, "relation": rows.relations}
    present = {name: column for name, column in columns.items() if column is not None}
    write_table(path, present, {"relations": list(rows.names)})


def read_score_rows(path: Path) -> ScoreRows:
    """Read the output of `write_score_rows`."""
    columns, metadata = read_table(path)
    weights, relations = columns.get("weight"), columns.get("relation")
    return ScoreRows(columns["score"], columns["label"], weights, relations, tuple(metadata["relations"]))
