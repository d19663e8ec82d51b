"""The results of an evaluation as JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kgcore.evaluation.evaluate import MAIN, Measured
from kgcore.metrics.reliability import Reliability
from kgcore.storage.json_file import read_json, write_json


def write_measured(path: Path, measured: dict[str, Measured]) -> None:
    """Metrics, their intervals and reliability bins of every calibrator as JSON."""

    def plain(result: Measured) -> dict[str, Any]:
        bins = {name: column.tolist() for name, column in asdict(result.reliability).items()}
        return result.metrics() | {"intervals": result.intervals, "reliability": bins}

    write_json(path, {label: plain(result) for label, result in measured.items()})


def read_measured(path: Path) -> dict[str, Measured]:
    """What `write_measured` wrote."""
    measured = {}
    for label, result in read_json(path).items():
        bins = {name: np.array(column) for name, column in result.pop("reliability").items()}
        intervals = {name: (low, high) for name, (low, high) in result.pop("intervals", {}).items()}
        main = {name: result.pop(name) for name in MAIN}
        measured[label] = Measured(**main, reliability=Reliability(**bins), others=result, intervals=intervals)
    return measured
