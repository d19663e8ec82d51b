"""What a Prefect flow run shows of a pipeline's results: the summary, the table, and the way to MLflow."""

from typing import Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from kgcore.report.summary import METRICS, markdown, rows
from tasks.ui import run_page


def publish(summary: dict[str, Any]) -> None:
    """Artifacts of the flow run that this is called in: `summary` in Markdown, the table `results`, and the link
    `mlflow-run` where an MLflow server is known."""
    title = f"{summary['model']} on {summary['dataset']}"
    notes = "\n\n".join(summary["notes"])
    create_markdown_artifact(f"# {title}\n\n{notes}\n\n{markdown(summary)}", key="summary", description=title)
    table = [
        {"negatives": negatives, "calibrator": calibrator} | {name: round(values[name], 4) for name in METRICS}
        for negatives, calibrator, values in rows(summary)
    ]
    create_table_artifact(table, key="results", description=title)
    if page := run_page(summary["pipeline"]):
        create_link_artifact(page, link_text="the run in MLflow", key="mlflow-run", description=title)
