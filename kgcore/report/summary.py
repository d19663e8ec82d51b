"""The results in one plain structure, and the rows of the table made from it."""

from typing import Any

from kgcore.evaluation import Measured

METRICS = ("brier", "log_loss", "ece", "accuracy")


def summarise(
    measured: dict[str, Measured], accuracy_per_relation: dict[str, float], ranks: dict[str, float]
) -> dict[str, Any]:
    """{metrics: {uncalibrated | base_rate: {...}, ground_truth | synthetic: {platt | isotonic ...: {...}}},
    accuracy_per_relation: {learned, median}, ranks: {mr, mrr, hits_at_N}}."""
    metrics: dict[str, Any] = {}
    for label, result in measured.items():
        negatives, _, name = label.rpartition(".")
        (metrics.setdefault(negatives, {}) if negatives else metrics)[name] = result.metrics()
    return {"metrics": metrics, "accuracy_per_relation": accuracy_per_relation, "ranks": ranks}


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


def best(summary: dict[str, Any]) -> dict[str, float]:
    """metric -> its best value over the fitted calibrators: the lowest, or for accuracy the highest. Baselines are no
    candidates: the base rate's calibration error is 0 and worth nothing."""
    values = {name: [row[name] for negatives, _, row in rows(summary) if negatives] for name in METRICS}
    return {name: max(column) if name == "accuracy" else min(column) for name, column in values.items()}


def markdown(summary: dict[str, Any]) -> str:
    """The table in Markdown, and the run id of every stage."""
    lines = ["| negatives | calibrator | " + " | ".join(METRICS) + " |", "|---|---|" + "---|" * len(METRICS)]
    for negatives, name, values in rows(summary):
        lines.append(f"| {negatives} | {name} | " + " | ".join(f"{values[m]:.4f}" for m in METRICS) + " |")
    lines += ["", "Stages: " + ", ".join(f"{stage} `{run_id}`" for stage, run_id in summary["runs"].items())]
    return "\n".join(lines)
