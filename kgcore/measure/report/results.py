"""The measured metrics as a table with one row per calibrator, and the metrics that each table of a report shows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgcore.measure.metrics.base import decimals, every_metric, highest_best, metric_names, ranked
from kgcore.measure.report.result import ResultTable

if TYPE_CHECKING:
    from kgcore.measure.evaluation.evaluate import Measured


def first_table(confidences: bool = False) -> tuple[str, ...]:
    """Return the metrics of a report's first table and of small tables: the headline metrics and sharpness.

    Sharpness is included because a constant probability can be calibrated and is still useless.

    confidences  whether the triples have confidences. The mean absolute error then follows; the mean squared error is
                 the Brier score
    """
    metrics = every_metric()
    errors = tuple(name for name in metric_names("confidence") if metrics[name].leading)
    usual = sorted(metric_names("headline", "sharpness"), key=lambda name: (metrics[name].column, name))
    return (*usual, *(errors if confidences else ()))


def headline() -> tuple[str, ...]:
    """Return the metrics of the family `headline`, which every comparison shows."""
    return metric_names("headline")


def leading() -> tuple[str, ...]:
    """Return the leading metrics of each family, for places with little room. The headline family comes first."""
    metrics = every_metric()
    return tuple(name for name in metric_names("headline", "calibration", "discrimination") if metrics[name].leading)


def overview() -> tuple[str, ...]:
    """Return the metrics that a pipeline's MLflow run shows: those of `first_table`, then the others of `leading`."""
    return tuple(dict.fromkeys((*first_table(), *leading())))


def further_tables() -> dict[str, tuple[str, ...]]:
    """Return the tables that follow the first table of a report: the sentence above a table -> its metrics."""
    calibration = "Calibration: are the probabilities right? Lower is better."
    discrimination = (
        "Discrimination: do true triples have higher probabilities than false ones? A higher value is better; "
        "sharpness alone is neither good nor bad."
    )
    return {
        calibration: metric_names("calibration"),
        discrimination: metric_names("discrimination", "sharpness"),
    }


def without_interval() -> str:
    """Return a sentence that names the metrics without an interval, and says why they have none."""
    metrics = every_metric()
    names = metric_names("headline", "calibration", "discrimination", "sharpness")
    titles = [metrics[name].title for name in names if not metrics[name].interval]
    return (
        f"{', '.join(titles[:-1])} and {titles[-1]} have no interval: on a finite sample they are biased, so that a "
        "bootstrap interval would often miss the true value, above all if the probabilities are calibrated. The "
        "debiased RMSCE has an interval that covers: it says whether a calibration error is left."
    )


def title(name: str) -> str:
    """Return the title of a metric. For a metric that is not registered, return its name without underscores."""
    metric = every_metric().get(name)
    return metric.title if metric else name.replace("_", " ")


@dataclass(frozen=True)
class MetricsRow:
    """The metrics of one calibrator.

    negatives   negatives that the calibrator is fitted on: ground_truth or synthetic; '' for a baseline, which is not
                fitted
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
        """Return the label of the calibrator, such as `synthetic.platt` or `uncalibrated`."""
        return f"{self.negatives}.{self.calibrator}" if self.negatives else self.calibrator

    def texts(self, columns: Iterable[str]) -> list[str]:
        """Write the metrics of `columns` as text: see `decimals`. A metric that the row does not have is `-`."""
        return [decimals(self.metrics[name]) if name in self.metrics else "-" for name in columns]


@dataclass(frozen=True)
class Results:
    """One row per calibrator: baselines first, then the fitted calibrators, grouped by their negatives."""

    rows: tuple[MetricsRow, ...]

    @classmethod
    def of(cls, measured: "Mapping[str, Measured]") -> "Results":
        """Make the table from an evaluation. `measured` is calibrator label -> its results."""
        rows = []
        for label, result in measured.items():
            negatives, _, name = label.rpartition(".")
            rows.append(MetricsRow(negatives, name, result.metrics, result.intervals))
        return cls(_grouped(rows))

    @property
    def fitted(self) -> tuple[MetricsRow, ...]:
        """Return the rows of the fitted calibrators, without the baselines."""
        return tuple(row for row in self.rows if row.negatives)

    @property
    def confidences(self) -> bool:
        """Whether the probabilities were measured against confidences."""
        return any(set(metric_names("confidence")) & set(row.metrics) for row in self.rows)

    @property
    def negatives(self) -> list[str]:
        """Return the kinds of negatives that calibrators are fitted on, each once, in the order of the rows."""
        return list(dict.fromkeys(row.negatives for row in self.fitted))

    def only(self, negatives: str) -> "Results":
        """Return only the rows of the calibrators that are fitted on these negatives."""
        return Results(tuple(row for row in self.fitted if row.negatives == negatives))

    def row(self, negatives: str, calibrator: str) -> MetricsRow:
        """Return the row of a calibrator. `negatives` is '' for a baseline. Raises KeyError if there is no such row."""
        for row in self.rows:
            if (row.negatives, row.calibrator) == (negatives, calibrator):
                return row
        raise KeyError(f"{negatives}.{calibrator}" if negatives else calibrator)

    def best(self) -> dict[str, float]:
        """Return metric -> its best value among the fitted calibrators.

        Metrics without a best direction are left out, such as one for which neither high nor low values are better.
        Baselines are excluded: a constant probability equal to the base rate has calibration error 0, but it says
        nothing about a triple.
        """
        highest, best = highest_best(), dict[str, float]()
        for metric in ranked():
            values = [row.metrics[metric] for row in self.fitted if metric in row.metrics]
            if values:
                best[metric] = max(values) if metric in highest else min(values)
        return best

    def best_fitted(self) -> MetricsRow | None:
        """Return the row of the fitted calibrator with the lowest Brier score, or None if no calibrator is fitted."""
        return min(self.fitted, key=lambda row: (row.metrics["brier"], row.label), default=None)

    def best_first(self) -> list[MetricsRow]:
        """Return the fitted calibrators, that with the lowest Brier score first, then the baselines."""
        return sorted(self.rows, key=lambda row: (not row.negatives, row.metrics["brier"], row.label))

    def table(self, answers: str = "", heading: str = "", notes: Sequence[str] = ()) -> ResultTable:
        """Return the first table of a report, with a row for each calibrator, the best first.

        answers  label of the calibrator that answers: its row is marked with a star, and a note says why
        """
        metrics, words = first_table(self.confidences), ("negatives", "calibrator")
        rows, best = [], set()
        for number, row in enumerate(self.best_first()):
            star = " *" if row.label == answers else ""
            names = (row.negatives.replace("_", " ") or "none", row.calibrator.replace("_", " ") + star)
            cells = zip((name.replace("_", " ") for name in metrics), row.texts(metrics), strict=True)
            rows.append(dict(zip(words, names, strict=True)) | dict(cells))
            best |= {(number, name) for name in rows[-1] if star}
        marked = ["* answers if you name no calibrator"] if best else []
        return ResultTable(heading, rows, words, [*marked, *notes], best)

    def to_json(self) -> dict[str, Any]:
        """Return the keys metrics and intervals.

        metrics    {BASELINE: {METRIC: value}, NEGATIVES: {CALIBRATOR: {METRIC: value}}}, with BASELINE uncalibrated or
                   base_rate, and NEGATIVES ground_truth or synthetic
        intervals  the same, with [low, high] in place of each value
        """
        metrics: dict[str, Any] = {}
        intervals: dict[str, Any] = {}
        for row in self.rows:
            ends = {name: list(pair) for name, pair in row.intervals.items()}
            for table, values in ((metrics, row.metrics), (intervals, ends)):
                (table.setdefault(row.negatives, {}) if row.negatives else table)[row.calibrator] = values
        return {"metrics": metrics, "intervals": intervals}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Results":
        """Read the output of `to_json`. Other keys are ignored."""
        rows = []
        for name, group in data["metrics"].items():
            ends = data["intervals"][name]
            if any(isinstance(values, dict) for values in group.values()):
                rows += [
                    MetricsRow(name, calibrator, values, _pairs(ends[calibrator]))
                    for calibrator, values in group.items()
                ]
            else:
                rows.append(MetricsRow("", name, group, _pairs(ends)))
        return cls(_grouped(rows))


def _grouped(rows: list[MetricsRow]) -> tuple[MetricsRow, ...]:
    """Sort the rows: first the baselines, then each kind of negatives, in the order in which the kinds first occur."""
    order = ["", *dict.fromkeys(row.negatives for row in rows)]
    return tuple(sorted(rows, key=lambda row: order.index(row.negatives)))


def _pairs(ends: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    return {name: (low, high) for name, (low, high) in ends.items()}
