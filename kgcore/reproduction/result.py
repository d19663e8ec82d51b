"""The results of one pipeline run that are compared with the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BASELINE = "none"  # the value of `negatives` for a baseline, because a baseline is not fitted


@dataclass(frozen=True)
class RelationThresholds:
    """The decision thresholds of one relation.

    thresholds  rule (learned, median) -> threshold on the score
    accuracies  rule -> test accuracy with this threshold
    """

    name: str
    thresholds: Mapping[str, float]
    accuracies: Mapping[str, float]


@dataclass(frozen=True)
class CellResult:
    """The results of one run of the pipeline.

    run_id      id of the pipeline's MLflow run
    metrics     (negatives, calibrator) -> metric -> value; the negatives are ground_truth, synthetic or BASELINE
    accuracies  rule of the per-relation thresholds (learned, median) -> test accuracy over all relations
    ranks       mr, mrr, hits_at_10 -> value
    relations   the thresholds of every relation, for data sets with labelled negatives
    """

    run_id: str
    metrics: Mapping[tuple[str, str], Mapping[str, float]]
    accuracies: Mapping[str, float]
    ranks: Mapping[str, float]
    relations: tuple[RelationThresholds, ...] = field(default=())
