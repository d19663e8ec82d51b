"""The results of a run that tables and figures of the paper need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BASELINE = "none"  # what a baseline was calibrated on


@dataclass(frozen=True)
class RelationThresholds:
    """The thresholds of one relation, by rule (learned, median), with the test accuracy of each."""

    name: str
    thresholds: Mapping[str, float]
    accuracies: Mapping[str, float]


@dataclass(frozen=True)
class CellResult:
    """The results of one run of the pipeline.

    run_id      id of the pipeline's MLflow run
    metrics     (negatives, calibrator) -> metric -> value; the negatives are ground_truth, synthetic or BASELINE
    accuracies  rule of the per-relation thresholds (learned, median) -> accuracy
    ranks       mr, mrr, hits_at_10 -> value
    relations   the thresholds of every relation, for data sets with labelled negatives
    """

    run_id: str
    metrics: Mapping[tuple[str, str], Mapping[str, float]]
    accuracies: Mapping[str, float]
    ranks: Mapping[str, float]
    relations: tuple[RelationThresholds, ...] = field(default=())

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> "CellResult":
        """The results in a pipeline's summary, as `summary.json` has it, with the run's id under `pipeline`."""
        metrics: dict[tuple[str, str], Mapping[str, float]] = {}
        for name, values in summary["metrics"].items():
            if "brier" in values:
                metrics[BASELINE, name] = values
            else:
                metrics |= {(name, calibrator): own for calibrator, own in values.items()}
        relations = tuple(
            RelationThresholds(
                relation["name"],
                {rule: relation[rule]["threshold"] for rule in ("learned", "median")},
                {rule: relation[rule]["accuracy"] for rule in ("learned", "median")},
            )
            for relation in summary.get("relations", [])
        )
        return cls(summary.get("pipeline", ""), metrics, summary["accuracy_per_relation"], summary["ranks"], relations)
