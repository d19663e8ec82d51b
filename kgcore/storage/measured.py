"""The results of an evaluation as JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kgcore.evaluation.evaluate import Measured
from kgcore.metrics.reliability import Reliability
from kgcore.storage.json_file import read_json, write_json


def write_measured(path: Path, measured: dict[str, Measured]) -> None:
    """Write the metrics, their intervals and the reliability bins of every calibrator as JSON.

    measured  calibrator label -> its results
    """
    write_json(path, {label: _plain(result) for label, result in measured.items()})


def read_measured(path: Path) -> dict[str, Measured]:
    """Read the output of `write_measured`."""
    measured = {}
    for label, result in read_json(path).items():
        bins = {name: np.array(column) for name, column in result.pop("reliability").items()}
        intervals = {name: (low, high) for name, (low, high) in result.pop("intervals").items()}
        measured[label] = Measured(result, Reliability(**bins), intervals)
    return measured


def _plain(result: Measured) -> dict[str, Any]:
    bins = {name: column.tolist() for name, column in asdict(result.reliability).items()}
    return result.metrics | {"intervals": result.intervals, "reliability": bins}
