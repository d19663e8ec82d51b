"""Indented JSON files, the version number of all artifact formats, and the results that are stored as JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kgcore.combiners.unseen import UnseenAnswers
    from kgcore.measure.evaluation.evaluate import Measured
    from kgcore.mixture.matched import Matched

FORMAT = 3  # version of all artifact formats, part of every cache key; increase it when a format changes


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_measured(path: Path, measured: "dict[str, Measured]") -> None:
    """Write the metrics, their intervals and the reliability bins of every calibrator as JSON.

    measured  calibrator label -> its results
    """
    write_json(path, {label: _plain(result) for label, result in measured.items()})


def read_measured(path: Path) -> "dict[str, Measured]":
    """Read the output of `write_measured`."""
    from kgcore.measure.evaluation.evaluate import Measured
    from kgcore.measure.metrics.reliability import Reliability

    measured = {}
    for label, result in read_json(path).items():
        bins = {name: np.array(column) for name, column in result.pop("reliability").items()}
        intervals = {name: (low, high) for name, (low, high) in result.pop("intervals").items()}
        measured[label] = Measured(result, Reliability(**bins), intervals)
    return measured


def _plain(result: "Measured") -> dict[str, Any]:
    bins = {name: column.tolist() for name, column in asdict(result.reliability).items()}
    return result.metrics | {"intervals": result.intervals, "reliability": bins}


def write_matched(path: Path, matched: "Matched") -> None:
    """Write the fit as JSON."""
    write_json(path, matched.to_json())


def read_matched(path: Path) -> "Matched":
    """Read the output of `write_matched`."""
    from kgcore.mixture.matched import Matched

    return Matched.from_json(read_json(path))


def write_unseen_answers(path: Path, fitted: "UnseenAnswers") -> None:
    """Write the fitted answers as JSON."""
    write_json(path, fitted.to_json())


def read_unseen_answers(path: Path) -> "UnseenAnswers":
    """Read the output of `write_unseen_answers`."""
    from kgcore.combiners.unseen import UnseenAnswers

    return UnseenAnswers.from_json(read_json(path))
