"""Views of the MLflow UI: links that open a table of runs with chosen rows, order and columns."""

import json
from urllib.parse import quote

from kgcore.report.results import overview
from tasks.tracking.record import RunTags, quoted
from tasks.tracking.store import open_store
from tasks.tracking.ui import ui_address

SETTINGS = ("model", "loss", "training_strategy", "negatives", "calibration_strategy", "calibrator", "base_rate")


def best_runs_page(dataset: str) -> str | None:
    """Save a view of all measurements on a data set: lowest Brier score first, columns for settings and main metrics.

    The view is saved in a tag of the experiment. Return its address; None if no server shows the store.
    """
    if not (address := ui_address()):
        return None
    store, view = open_store(), f"kgcal-{dataset}"
    # the format of a view that a user shares in MLflow's UI; MLflow 3.17 also reads it as plain JSON
    state = {
        "searchFilter": f"{RunTags(stage='measurement').where(None)} and params.dataset = {quoted(dataset)}",
        "orderByKey": "metrics.`brier`",
        "orderByAsc": True,
        "selectedColumns": [f"params.`{name}`" for name in SETTINGS] + [f"metrics.`{name}`" for name in overview()],
    }
    store.client.set_experiment_tag(store.experiment_id, f"mlflow.sharedViewState.{view}", json.dumps(state))
    page = f"{address}/#/experiments/{store.experiment_id}/runs"
    return f"{page}?viewStateShareKey={quote(view)}&workflowType=machine_learning"
