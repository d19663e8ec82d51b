"""A calibrator of scores as a JSON file."""

from pathlib import Path

from kgcore.external.calibrator import ScoreCalibrator
from kgcore.storage.json_file import read_json, write_json

SCORE_CALIBRATOR_FILE = "score_calibrator.json"


def write_score_calibrator(folder: Path, calibrator: ScoreCalibrator) -> None:
    """Write score_calibrator.json to the folder."""
    write_json(folder / SCORE_CALIBRATOR_FILE, calibrator.to_json())


def read_score_calibrator(folder: Path) -> ScoreCalibrator:
    """Read the output of `write_score_calibrator`."""
    return ScoreCalibrator.from_json(read_json(folder / SCORE_CALIBRATOR_FILE))
