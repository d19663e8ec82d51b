"""Measured metrics as a table with one row per calibrator, for reports and for JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgcore.evaluation.evaluate import Measured
from kgcore.metrics.catalogue import highest_best, ranked


@dataclass(frozen=True)
class Row:
    """The metrics of one calibrator.

    negatives   negatives of the fit: ground_truth or synthetic; '' for a baseline, which is not fitted
    calibrator  name of the calibrator; in the results of an ensemble, name of a member or of a pool
    metrics     name -> value; undefined metrics are missing
    intervals   metric -> interval (low, high)
    """

    negatives: str
    calibrator: str
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The calibrator's label, such as `synthetic.platt` or `uncalibrated`."""
        return f"{self.negatives}.{self.calibrator}" if self.negatives else self.calibrator

    def texts(self, columns: Iterable[str]) -> list[str]:
        """The metrics as text with four digits. A missing metric is `-`, for example if a later version added it."""
        return [f"{self.metrics[name]:.4f}" if name in self.metrics else "-" for name in columns]


@dataclass(frozen=True)
class Results:
    """One row per calibrator: baselines first, then the fitted calibrators, grouped by their negatives."""

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, measured: Mapping[str, Measured]) -> "Results":
        """The results of an evaluation: calibrator label -> measured results."""
        rows = []
        for label, result in measured.items():
            negatives, _, name = label.rpartition(".")
            rows.append(Row(negatives, name, result.metrics, result.intervals))
        return cls(_grouped(rows))

    @property
    def fitted(self) -> tuple[Row, ...]:
        """The rows without the baselines."""
        return tuple(row for row in self.rows if row.negatives)

    @property
    def negatives(self) -> list[str]:
        """The negatives of the fitted calibrators, in the order of the rows."""
        return list(dict.fromkeys(row.negatives for row in self.fitted))

    def only(self, negatives: str) -> "Results":
        """The rows of the calibrators with a fit on these negatives."""
        return Results(tuple(row for row in self.fitted if row.negatives == negatives))

    def row(self, negatives: str, calibrator: str) -> Row:
        """The row of a calibrator. `negatives` is '' for a baseline. Raises KeyError if the row does not exist."""
        for row in self.rows:
            if (row.negatives, row.calibrator) == (negatives, calibrator):
                return row
        raise KeyError(f"{negatives}.{calibrator}" if negatives else calibrator)

    def best(self) -> dict[str, float]:
        """Metric -> its best value over the fitted calibrators, for metrics with a better direction.

        Baselines are excluded: the calibration error of the base rate is 0, but its probabilities are not informative.
        """
        highest, found = highest_best(), dict[str, float]()
        for metric in ranked():
            values = [row.metrics[metric] for row in self.fitted if metric in row.metrics]
            if values:
                found[metric] = max(values) if metric in highest else min(values)
        return found

    def best_fitted(self) -> Row | None:
        """The row of the fitted calibrator with the lowest Brier score; None without a fitted calibrator."""
        return min(self.fitted, key=lambda row: (row.metrics["brier"], row.label), default=None)

    def to_json(self) -> dict[str, Any]:
        """{metrics: {uncalibrated | base_rate: {...}, ground_truth | synthetic: {platt | isotonic ...: {...}}},
        intervals: the same with [low, high] in place of each number}."""
        metrics: dict[str, Any] = {}
        intervals: dict[str, Any] = {}
        for row in self.rows:
            ends = {name: list(pair) for name, pair in row.intervals.items()}
            for table, values in ((metrics, row.metrics), (intervals, ends)):
                (table.setdefault(row.negatives, {}) if row.negatives else table)[row.calibrator] = values
        return {"metrics": metrics, "intervals": intervals}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Results":
        """Read the output of `to_json`. Earlier versions wrote no intervals. Other keys are ignored."""
        rows = []
        for name, group in data["metrics"].items():
            ends = data.get("intervals", {}).get(name, {})
            if any(isinstance(values, dict) for values in group.values()):
                rows += [Row(name, own, values, _pairs(ends.get(own, {}))) for own, values in group.items()]
            else:
                rows.append(Row("", name, group, _pairs(ends)))
        return cls(_grouped(rows))


def _grouped(rows: list[Row]) -> tuple[Row, ...]:
    """The baselines, then the other rows grouped by negatives, in the order of first occurrence."""
    order = ["", *dict.fromkeys(row.negatives for row in rows)]
    return tuple(sorted(rows, key=lambda row: order.index(row.negatives)))


def _pairs(ends: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    return {name: (low, high) for name, (low, high) in ends.items()}
