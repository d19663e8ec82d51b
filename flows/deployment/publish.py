"""Publish the result of a flow run as artifacts in the Prefect UI.

The artifacts are the Markdown text `summary` and the table `results`. If the address of an MLflow server is known, the
link `mlflow-run` is published too. Outside a flow run, nothing is published.
"""

import logging
from typing import Protocol, TypeVar

from kgcore.errors import first_line
from kgcore.report.result import Result
from tasks.workspace.flow_run import current_flow_run

log = logging.getLogger("kgcal")
MOST_ROWS = 48  # a reproduction has hundreds of rows, too many for a dashboard


class HasResult(Protocol):
    """What a job returns beside a `Result`: facts for Python, which know how they are shown."""

    def result(self) -> Result:
        """Return what a user sees."""


T = TypeVar("T", bound=HasResult | Result)


def result_of(found: HasResult | Result) -> Result:
    """Return what a user sees of the value that a job returns."""
    return found if isinstance(found, Result) else found.result()


def publish(found: T) -> T:
    """Publish the value that a job returns, and return it. Logs a warning if the server refuses an artifact."""
    if current_flow_run() is None:
        return found
    from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

    from tasks.tracking.ui import run_page  # loads MLflow

    result = result_of(found)
    title = result.title
    try:
        create_markdown_artifact(f"# {title}\n\n{result.markdown()}", key="summary", description=title)
        create_table_artifact([dict(row) for row in result.table[:MOST_ROWS]], key="results", description=title)
        if result.run and (page := run_page(result.run)):
            create_link_artifact(page, link_text="the run in MLflow", key="mlflow-run", description=title)
    except Exception as error:  # ignore any error of the server: the results are in MLflow
        log.warning("the results cannot be shown in the Prefect UI: %s", first_line(error))
    return found
