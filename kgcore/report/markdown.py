"""The results of a pipeline in Markdown."""

from collections.abc import Mapping

from kgcore.report.columns import first_table
from kgcore.report.results import Results


def markdown(results: Results, runs: Mapping[str, str]) -> str:
    """Return the first table of a report in Markdown, and below it the run id of every stage.

    runs  stage -> its MLflow run id
    """
    columns = first_table(results.confidences)
    lines = ["| negatives | calibrator | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    lines += [
        f"| {row.negatives or 'none'} | {row.calibrator} | {' | '.join(row.texts(columns))} |" for row in results.rows
    ]
    lines += ["", "Stages: " + ", ".join(f"{stage} `{run_id}`" for stage, run_id in runs.items())]
    return "\n".join(lines)
