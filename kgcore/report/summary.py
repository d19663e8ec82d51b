"""The results in one plain structure, and the rows of the table made from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kgcore.evaluation.evaluate import Measured

METRICS = ("brier", "log_loss", "ece", "accuracy")
SHOWN = ("brier", "log_loss", "ece", "sharpness", "accuracy")  # in a small table: calibration never without sharpness
CALIBRATION = ("smooth_ece", "ece_equal_mass", "debiased_rmsce", "brier_miscalibration", "log_loss_miscalibration")
DISCRIMINATION = ("brier_discrimination", "log_loss_discrimination", "auroc", "average_precision")
RANKED = (*METRICS, *CALIBRATION, *DISCRIMINATION)  # of these there is a better and a worse
HIGHEST_BEST = ("accuracy", *DISCRIMINATION)
HEADLINES = (*SHOWN, "smooth_ece", "auroc")  # what a pipeline's own run shows
WITH_INTERVAL = ("brier", "smooth_ece")  # where only the most telling intervals have room
WORDS = {
    "brier": "Brier score",
    "ece": "ECE",
    "smooth_ece": "smooth ECE",
    "ece_equal_mass": "ECE, equal mass",
    "debiased_rmsce": "debiased RMSCE",
    "brier_miscalibration": "miscalibration (Brier)",
    "log_loss_miscalibration": "miscalibration (log loss)",
    "brier_discrimination": "discrimination (Brier)",
    "log_loss_discrimination": "discrimination (log loss)",
    "auroc": "AUROC",
}


def word(metric: str) -> str:
    """A metric as people read it."""
    return WORDS.get(metric, metric.replace("_", " "))


def summarise(
    measured: dict[str, Measured], accuracy_per_relation: dict[str, float], ranks: dict[str, float]
) -> dict[str, Any]:
    """{metrics: {uncalibrated | base_rate: {...}, ground_truth | synthetic: {platt | isotonic ...: {...}}},
    intervals: the same with [low, high] in place of a number,
    accuracy_per_relation: {learned, median}, ranks: {mr, mrr, hits_at_N}}.

    What is not defined, or has no interval, is left out."""
    metrics: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    for label, result in measured.items():
        negatives, _, name = label.rpartition(".")
        ends = {metric: list(interval) for metric, interval in result.intervals.items()}
        for table, values in ((metrics, result.metrics()), (intervals, ends)):
            (table.setdefault(negatives, {}) if negatives else table)[name] = values
    told = {"metrics": metrics, "intervals": intervals}
    return told | {"accuracy_per_relation": accuracy_per_relation, "ranks": ranks}


def rows(summary: dict[str, Any]) -> list[tuple[str, str, dict[str, float]]]:
    """The table's rows: negatives ('' for a baseline), calibrator, metrics by name; baselines first."""
    metrics = summary["metrics"]
    baselines = [("", name, values) for name, values in metrics.items() if "brier" in values]
    fitted = [
        (negatives, name, values)
        for negatives, group in metrics.items()
        if "brier" not in group
        for name, values in group.items()
    ]
    return baselines + fitted


def texts(values: Mapping[str, float]) -> list[str]:
    """What a table shows of SHOWN; `-` of what was not measured, as the sharpness by earlier versions."""
    return [f"{values[name]:.4f}" if name in values else "-" for name in SHOWN]


def interval(summary: dict[str, Any], negatives: str, name: str, metric: str) -> tuple[float, float] | None:
    """(low, high) of a row's metric; None where there is none."""
    table = summary.get("intervals", {})
    found = (table.get(negatives, {}) if negatives else table).get(name, {}).get(metric)
    return (found[0], found[1]) if found else None


def best(summary: dict[str, Any]) -> dict[str, float]:
    """metric -> its best value over the fitted calibrators: the lowest, or of HIGHEST_BEST the highest, where any has
    it. Baselines are no candidates: the base rate's calibration error is 0 and worth nothing."""
    fitted = [row for negatives, _, row in rows(summary) if negatives]
    values = {metric: [row[metric] for row in fitted if metric in row] for metric in RANKED}
    return {
        metric: max(column) if metric in HIGHEST_BEST else min(column) for metric, column in values.items() if column
    }


def with_intervals(metrics: Mapping[str, float], intervals: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The metrics, and NAME_low and NAME_high of those of WITH_INTERVAL: what MLflow gets."""
    named = [(name, intervals[name]) for name in WITH_INTERVAL if name in metrics and name in intervals]
    ends = {f"{name}_{end}": value for name, pair in named for end, value in zip(("low", "high"), pair, strict=True)}
    return {**metrics, **ends}


def markdown(summary: dict[str, Any]) -> str:
    """The table in Markdown, and the run id of every stage."""
    lines = ["| negatives | calibrator | " + " | ".join(SHOWN) + " |", "|---|---|" + "---|" * len(SHOWN)]
    for negatives, name, values in rows(summary):
        lines.append(f"| {negatives} | {name} | " + " | ".join(texts(values)) + " |")
    lines += ["", "Stages: " + ", ".join(f"{stage} `{run_id}`" for stage, run_id in summary["runs"].items())]
    return "\n".join(lines)
