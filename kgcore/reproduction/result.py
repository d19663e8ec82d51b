"""The results of one run for the tables and figures of the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BASELINE = "none"  # the negatives of a baseline, which is not fitted


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
