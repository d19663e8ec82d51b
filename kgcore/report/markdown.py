"""The results of a pipeline in Markdown."""

from collections.abc import Mapping

from kgcore.evaluation.results import Results
from kgcore.metrics.catalogue import first_table


def markdown(results: Results, runs: Mapping[str, str]) -> str:
    """The first table in Markdown, and the run id of every stage."""
    columns = first_table()
    lines = ["| negatives | calibrator | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for row in results.rows:
        lines.append(f"| {row.negatives} | {row.calibrator} | " + " | ".join(row.texts(columns)) + " |")
    lines += ["", "Stages: " + ", ".join(f"{stage} `{run_id}`" for stage, run_id in runs.items())]
    return "\n".join(lines)
