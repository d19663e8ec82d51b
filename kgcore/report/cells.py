"""The conversion of a pipeline's summary to the results that are compared with the paper."""

from kgcore.report.summary import PipelineSummary, RelationSummary
from kgcore.reproduction.result import BASELINE, CellResult, RelationThresholds


def cell_result(summary: PipelineSummary) -> CellResult:
    """Convert the summary of a pipeline to the results of one run of the reproduction."""
    return CellResult(
        run_id=summary.pipeline,
        metrics={(row.negatives or BASELINE, row.calibrator): row.metrics for row in summary.results.rows},
        accuracies=summary.accuracy_per_relation,
        ranks=summary.ranks,
        relations=tuple(_thresholds(relation) for relation in summary.relations),
    )


def _thresholds(relation: RelationSummary) -> RelationThresholds:
    rules = {"learned": relation.decisions.learned, "median": relation.decisions.median}
    return RelationThresholds(
        relation.name,
        {rule: result.threshold for rule, result in rules.items()},
        {rule: result.accuracy for rule, result in rules.items()},
    )
