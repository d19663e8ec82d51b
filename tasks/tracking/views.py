"""Views of the MLflow UI: a link that opens a table with the rows, order and columns that answer a question."""

import json
from urllib.parse import quote

from kgcore.report.columns import overview
from tasks.tracking.record import RunTags, quoted
from tasks.tracking.store import open_store
from tasks.tracking.ui import ui_address

SETTINGS = ("model", "loss", "training_strategy", "negatives", "calibration_strategy", "calibrator", "base_rate")


def best_runs_page(dataset: str) -> str | None:
    """The runs table of everything measured on a data set, the lowest Brier score first, with the columns that say by
    what: a view that the experiment keeps, where a server shows it."""
    if not (address := ui_address()):
        return None
    store, view = open_store(), f"kgcal-{dataset}"
    # what MLflow's own "share view" writes; 3.17 reads it as plain JSON, too
    state = {
        "searchFilter": f"{RunTags(stage='measurement').where(None)} and params.dataset = {quoted(dataset)}",
        "orderByKey": "metrics.`brier`",
        "orderByAsc": True,
        "selectedColumns": [f"params.`{name}`" for name in SETTINGS] + [f"metrics.`{name}`" for name in overview()],
    }
    store.client.set_experiment_tag(store.experiment_id, f"mlflow.sharedViewState.{view}", json.dumps(state))
    page = f"{address}/#/experiments/{store.experiment_id}/runs"
    return f"{page}?viewStateShareKey={quote(view)}&workflowType=machine_learning"
