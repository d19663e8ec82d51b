"""What a Prefect flow run shows of its results: `summary` in Markdown, the table `results`, and, where an MLflow server
is known, the link `mlflow-run`."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.cli.tables.tuning import outcome, ranked
from kgcore.errors import first_line
from kgcore.report.ensembles import ensemble_markdown
from kgcore.report.summary import SHOWN, markdown, rows
from tasks.stages.base import StageRef, inputs, log
from tasks.tracking.store import open_store
from tasks.tracking.ui import run_page
from tasks.workspace.flow_run import current_flow_run

ROWS = 48  # of a reproduction, which has hundreds: a dashboard is no place for all


def publish(summary: dict[str, Any]) -> None:
    """Of a pipeline: its notes and table, by calibrator."""
    title = f"{summary['model']} on {summary['dataset']}"
    table = [
        {"negatives": negatives, "calibrator": calibrator} | {name: round(values[name], 4) for name in SHOWN}
        for negatives, calibrator, values in rows(summary)
    ]
    _publish(title, "\n\n".join([*summary["notes"], markdown(summary)]), table, summary["pipeline"])


def publish_stage(ref: StageRef) -> None:
    """Of a single stage: what it made or re-used, from which settings and runs; the table is its metrics."""
    flow_run = current_flow_run()
    if flow_run is None:
        return
    run = open_store().run(ref.run_id)
    settings = json.loads(run.data.tags["kgcal.config"])
    reused = run.info.start_time < flow_run.started * 1000
    done = "was there already and is re-used" if reused else f"took {run.data.metrics['seconds']:.1f} seconds"
    text = [f"MLflow run `{ref.run_id}` {done}.", _table("setting", settings), _table("from", inputs(run))]
    table = [{"metric": name, "value": round(value, 6)} for name, value in sorted(run.data.metrics.items())]
    _publish(ref.stage, "\n\n".join(filter(None, text)), table, ref.run_id)


def publish_reproduction(made: Mapping[str, Any]) -> None:
    """Of a reproduction: its findings and failures; the table is ours beside the paper's, the first ROWS of it."""
    if current_flow_run() is None:  # there is nothing to read the table for
        return
    frame = pd.read_csv(made["csv"], keep_default_na=False, na_values={"paper": [""], "ours": [""]})
    both = frame.dropna(subset=["paper", "ours"]).assign(difference=lambda f: f["ours"] - f["paper"])
    names = ["table", "dataset", "model", "loss", "negatives", "calibrator", "metric", "ours", "paper", "difference"]
    text = [f"* {line}" for line in made["findings"]]
    text += [f"* {cell} failed: {reason}" for cell, reason in made["failures"].items()]
    text += ["", f"{len(both)} figures are the paper's and ours; all of them: `{made['csv']}`, `{made['page']}`."]
    table = json.loads(both[names].head(ROWS).round(4).to_json(orient="records"))
    _publish("The paper and kgcal, side by side", "\n".join(text), table, made["run_id"])


def publish_decisions(decisions: list[dict[str, Any]]) -> None:
    """Of the gate: why it opened or not, for each data set; the table is what was decided."""
    shown = ("dataset", "challenger", "champion", "passed")
    table = [{name: decision[name] for name in shown} for decision in decisions]
    text = [f"* {decision['explanation']}" for decision in decisions]
    run_id = next((decision["run"] for decision in decisions if decision["run"]), None)
    _publish("Challengers at the gate", "\n".join(text), table, run_id)


def publish_ensemble(summary: dict[str, Any]) -> None:
    """Of ensembles: them beside their members, and what the members' disagreement says."""
    table = [
        {"negatives": negatives, "model": name} | {metric: round(values[metric], 4) for metric in SHOWN}
        for negatives, name, values in rows(summary)
    ]
    text = "\n\n".join([*summary["notes"], ensemble_markdown(summary)])
    _publish(f"Ensembles on {summary['dataset']}", text, table, summary["run"])


def publish_look(seen: dict[str, Any]) -> None:
    """Of a look at a champion: what is wrong; the table is its figures."""
    said = [f"* {finding}" for finding in seen["findings"]] or [f"{seen['model']} fits."]
    said += [f"* recalibrated: run `{seen['recalibrated']}`"] if "recalibrated" in seen else []
    table = [{"figure": name, "value": round(value, 6)} for name, value in seen["metrics"].items()]
    _publish(f"Look {seen['number']} at {seen['dataset']}", "\n".join(said), table, seen["run"])


def publish_tuning(found: dict[str, Any]) -> None:
    """Of a search: what was found, as a command; the table is its best trials."""
    keep = ("trial", "value", "epochs", "seconds", *found["settings"])
    table = [{name: row[name] for name in keep} for row in ranked(found)[:ROWS]]
    text = f"{outcome(found)}\n\n    {found['command']}"
    _publish(f"{found['model']} {found['loss']} on {found['dataset']}: settings", text, table, found["run"])


def _publish(title: str, text: str, table: list[dict[str, Any]], run_id: str | None) -> None:
    """The three artifacts, where this is called in a flow run; with a warning where the server takes none."""
    if current_flow_run() is None:
        return
    try:
        create_markdown_artifact(f"# {title}\n\n{text}", key="summary", description=title)
        create_table_artifact(table, key="results", description=title)
        if run_id and (page := run_page(run_id)):
            create_link_artifact(page, link_text="the run in MLflow", key="mlflow-run", description=title)
    except Exception as error:  # whatever a server says: the results are in MLflow
        log.warning("the flow run in Prefect does not show its results: %s", first_line(error))


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"| {key} | {value if isinstance(value, str) else json.dumps(value)} |" for key, value in values.items()]
    return "\n".join([f"| {name} | |", "|---|---|", *lines]) if lines else ""
