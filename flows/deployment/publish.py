"""Publish the results of a flow run as artifacts in the Prefect UI.

The artifacts are the Markdown text `summary` and the table `results`. If the address of an MLflow server is known, the
link `mlflow-run` is published too. Outside a flow run, nothing is published.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kgcore.errors import first_line
from kgcore.report.columns import first_table
from kgcore.report.ensemble_summary import ensemble_markdown
from kgcore.report.results import markdown
from tasks.stages.reference import StageRef
from tasks.stages.table import in_order
from tasks.tracking.store import open_store
from tasks.tracking.ui import run_page
from tasks.workspace.flow_run import current_flow_run

if TYPE_CHECKING:  # the jobs load what they compute with: a flow loads only its own job
    from kgcore.report.ensemble_summary import EnsembleSummary
    from kgcore.report.summary import PipelineSummary
    from tasks.jobs.audit_result import AuditResult
    from tasks.jobs.base_rate_result import BaseRateResult
    from tasks.jobs.discover import Discovered
    from tasks.jobs.explain import Explained
    from tasks.jobs.fitted_scores import ScoresResult
    from tasks.jobs.prediction import Prediction
    from tasks.jobs.promote import Decision
    from tasks.jobs.reproduce import Reproduction
    from tasks.jobs.tuning_result import TuningResult
    from tasks.jobs.watch import WatchResult

log = logging.getLogger("kgcal")
MOST_ROWS = 48  # a reproduction has hundreds of rows, too many for a dashboard


def publish(summary: "PipelineSummary") -> None:
    """Publish the notes and results of a pipeline. The table has a row per calibrator."""
    table = [
        {"negatives": row.negatives, "calibrator": row.calibrator}
        | {name: round(row.metrics[name], 4) for name in first_table()}
        for row in summary.results.rows
    ]
    first = [summary.warning] if summary.warning else []
    text = "\n\n".join([*first, *summary.notes, markdown(summary.results, summary.runs)])
    _publish(f"{summary.model} on {summary.dataset}", text, table, summary.pipeline)


def publish_stage(ref: StageRef) -> None:
    """Publish the run, settings and inputs of a single stage. The table has the metrics of the stage."""
    flow_run = current_flow_run()
    if flow_run is None:
        return
    run = open_store().get(ref.run_id)
    reused = run.started < flow_run.started
    done = "existed already and is re-used" if reused else f"took {run.metrics['seconds']:.1f} seconds"
    inputs = _table("from", in_order(run.tags.inputs))
    text = [f"MLflow run `{ref.run_id}` {done}.", _table("setting", run.tags.config or {}), inputs]
    table = [{"metric": name, "value": round(value, 6)} for name, value in sorted(run.metrics.items())]
    _publish(ref.stage, "\n\n".join(filter(None, text)), table, ref.run_id)


def publish_reproduction(made: "Reproduction") -> None:
    """Publish the findings and failures of a reproduction.

    The table compares our values with the paper's values; it has at most MOST_ROWS rows.
    """
    if current_flow_run() is None:  # nothing is published, so the CSV file need not be read
        return
    import pandas as pd

    frame = pd.read_csv(made.csv, keep_default_na=False, na_values={"paper": [""], "ours": [""]})
    both = frame.dropna(subset=["paper", "ours"]).assign(difference=lambda f: f["ours"] - f["paper"])
    names = ["table", "dataset", "model", "loss", "negatives", "calibrator", "metric", "ours", "paper", "difference"]
    text = [f"* {line}" for line in made.findings]
    text += [f"* {cell} failed: {reason}" for cell, reason in made.failures.items()]
    text += ["", f"{len(both)} values are compared with the paper's. All values: `{made.csv}`, `{made.page}`."]
    table = json.loads(both[names].head(MOST_ROWS).round(4).to_json(orient="records"))
    _publish("The paper and kgcal, side by side", "\n".join(text), table, made.run_id)


def publish_decisions(decisions: "Sequence[Decision]") -> None:
    """Publish why each challenger passed or failed the gate. The table has a row per decision."""
    shown = ("dataset", "challenger", "champion", "passed")
    table = [{name: getattr(decision, name) for name in shown} for decision in decisions]
    text = [f"* {decision.explanation}" for decision in decisions]
    run_id = next((decision.run for decision in decisions if decision.run), None)
    _publish("Challengers compared with champions", "\n".join(text), table, run_id)


def publish_ensemble(summary: "EnsembleSummary") -> None:
    """Publish the results of ensembles and members, and the disagreement of the members."""
    table = [
        {"negatives": row.negatives, "model": row.calibrator}
        | {name: round(row.metrics[name], 4) for name in first_table()}
        for row in summary.results.rows
    ]
    text = "\n\n".join([*summary.notes, ensemble_markdown(summary)])
    _publish(f"Ensembles on {summary.dataset}", text, table, summary.run)


def publish_check(seen: "WatchResult") -> None:
    """Publish the findings of one check of a champion. The table has the metrics."""
    text = [f"* {finding}" for finding in seen.findings] or [f"No drift of {seen.model} was found."]
    text += [f"* {note}" for note in seen.notes]
    text += [f"* to do: `{seen.command}`"] if seen.command and not seen.recalibrated else []
    text += [f"* recalibrated: run `{seen.recalibrated}`"] if seen.recalibrated else []
    table = [{"figure": name, "value": round(value, 6)} for name, value in seen.metrics.items()]
    _publish(f"Check {seen.number} of {seen.dataset}", "\n".join(text), table, seen.run)


def publish_prediction(made: "Prediction") -> None:
    """Publish the counts of a prediction. The table has its first answers."""
    text = [
        f"{made.rows:,} candidates of {made.dataset}: {made.answered:,} answered, {made.accepted:,} with a probability "
        f"above {made.threshold:g}, {made.known:,} known facts.",
        *([f"{made.expected_text}, for the base rate {made.base_rate_text}."] if made.expected_text else []),
        *([made.about] if made.about else []),
        *([f"From names: {made.unseen:,} answers about entities that training has not seen."] if made.unseen else []),
        *(f"* no answer: {reason} ({number:,})" for reason, number in made.reasons.items()),
        *([made.lacks] if made.lacks else []),
    ]
    text += [f"The answers: `{made.output}`"] if made.output else []
    _publish(f"Prediction by {made.model}", "\n\n".join(text), made.examples, made.run)


def publish_audit(found: "AuditResult") -> None:
    """Publish the findings of an audit. The table has the facts that are most probably wrong."""
    text = [*found.sentences(), *([f"The file: `{found.output}`"] if found.output else [])]
    _publish(f"Audit of {found.dataset}", "\n\n".join(text), found.examples, found.run)


def publish_base_rate(found: "BaseRateResult") -> None:
    """Publish the sentences about a base rate. The table has the base rates of the relations."""
    table = [asdict(row) for row in found.relations[:MOST_ROWS]]
    _publish(f"Base rate of candidates of {found.dataset}", "\n\n".join(found.sentences()), table, found.run)


def publish_scores(found: "ScoresResult") -> None:
    """Publish how good calibrators of scores are. The table has a row for each, or the first answers."""
    text: list[str] = []
    table: Sequence[Mapping[str, object]] = found.examples
    if found.summary is not None:
        text = [*found.summary.notes, markdown(found.summary.results, {})]
        table = [{"calibrator": row.label, **row.metrics} for row in found.summary.results.rows]
    if found.output:
        text.append(f"{found.rows:,} rows with probabilities: `{found.output}`")
    _publish(f"Scores of {found.dataset}", "\n\n".join(text), table, found.run)


def publish_explanation(shown: "Explained") -> None:
    """Publish the sentences of an explanation. The table has the probability at several base rates."""
    made = shown.explanation
    text = [f"* {sentence}" for sentence in made.sentences]
    table = [asdict(row) for row in made.at_base_rates]
    _publish(f"{made.subject} {made.predicate} {made.object}", "\n".join(text), table, shown.run)


def publish_discovery(found: "Discovered") -> None:
    """Publish what was asked and the notes about the list. The table has its first rows."""
    text = [f"The answer sets of {found.rows:,} kinds of queries `{found.asked}`."]
    if found.has_facts:
        expected = f", {found.expected_text}" if found.expected_text else ""
        text = [f"{found.rows:,} missing facts `{found.asked}`{expected}."]
    text += [f"* {note}" for note in found.notes]
    text += [f"* frequent flyer: {flyer['entity']}, {flyer['answers']} answers" for flyer in found.flyers]
    text += [f"The list: `{found.output}`"] if found.output else []
    _publish(f"Missing facts of {found.dataset}", "\n\n".join(text), found.examples, found.run)


def publish_tuning(found: "TuningResult") -> None:
    """Publish the command with the best settings of a search. The table has the best trials."""
    table = [
        {"trial": trial.number, "value": trial.value, "epochs": trial.epochs_done, "seconds": trial.seconds}
        | (trial.config.as_dict() if trial.config else {})
        for trial in found.ranked()[:MOST_ROWS]
    ]
    title = f"{found.settings.model} {found.settings.loss} on {found.dataset}: settings"
    _publish(title, f"{found.outcome()}\n\n    {found.command}", table, found.run)


def _publish(title: str, text: str, table: Sequence[Mapping[str, object]], run_id: str | None) -> None:
    """Create the artifacts; do nothing outside a flow run. Logs a warning if the server refuses them."""
    if current_flow_run() is None:
        return
    from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

    try:
        create_markdown_artifact(f"# {title}\n\n{text}", key="summary", description=title)
        create_table_artifact([dict(row) for row in table], key="results", description=title)
        if run_id and (page := run_page(run_id)):
            create_link_artifact(page, link_text="the run in MLflow", key="mlflow-run", description=title)
    except Exception as error:  # ignore any error of the server: the results are in MLflow
        log.warning("the results cannot be shown in the Prefect UI: %s", first_line(error))


def _table(name: str, values: Mapping[str, object]) -> str:
    lines = [f"| {key} | {value if isinstance(value, str) else json.dumps(value)} |" for key, value in values.items()]
    return "\n".join([f"| {name} | |", "|---|---|", *lines]) if lines else ""
